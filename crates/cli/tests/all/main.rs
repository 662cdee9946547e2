//! Tests of the command. One program, so that those that wait for the clock wait side by side.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail loudly")]
#![allow(clippy::disallowed_methods, reason = "processes and pages are given time")]

mod common;

mod attack;
mod benchmark;
mod book;
mod call;
mod call_browser;
#[cfg(feature = "browser")]
mod call_browser_sends;
mod call_capture;
mod call_faults;
mod call_media;
mod call_protection;
mod call_voice;
mod city;
mod command;
mod compare;
mod documents;
mod explore;
mod fragments;
mod habits;
mod iperf3;
mod iperf3_served;
mod kernel_parity;
mod lessons;
mod link;
mod link_chromium;
mod link_relay;
mod live;
mod load;
mod lte;
mod migrate;
mod monitor;
mod mtu;
mod multicast;
mod nat;
mod outage;
mod pages;
mod paths;
mod printed;
mod published;
mod refused;
mod replay;
mod rfc8867;
mod rtp_senders;
mod safety;
mod signals;
mod simulate;
mod stamp;
mod sweep;
mod terminal;
mod tight;
mod trust;
mod tuned;
mod web;
mod wire;
