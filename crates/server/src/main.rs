//! Starts the command line. The allocator is mimalloc, without huge pages: small allocations on many threads are most of what we do.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    fantail_server::cli::run()
}
