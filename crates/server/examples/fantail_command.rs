//! The `fantail` command, for `interop`, which builds examples.

fn main() -> std::process::ExitCode {
    fantail_server::cli::run()
}
