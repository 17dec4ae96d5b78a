//! The pool against servers on this machine that do exactly what a test says, frame by frame. Time stands still unless a
//! test moves it.

mod time;

mod server;

mod house;

mod streams;

mod trouble;

mod lifetime;

mod http1;
