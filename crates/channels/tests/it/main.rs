//! The channels against providers on this machine. Time stands still unless a test moves it.

mod time;

mod parcel;

mod nobody;

mod sink;

mod conform;
mod drain;
mod drain_real;
mod failover;

mod accounts;

mod stub;

mod house;

mod twilio;

mod webhook;

mod tls;

mod ssrf;

mod outbound_matrix;

mod mail;

mod relay;

mod smtp;

mod golden;

mod service;

mod fcm;
mod fcm_desk;

mod webpush;

mod sandboxed;

mod real_time;

mod apns;
mod aws;

mod ses;
mod ses_bulk;
