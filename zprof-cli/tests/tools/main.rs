//! The commands that run programs under other tools. All tools here are stand-ins, small scripts that write down what they
//! are given, but in `real_nsys`.
#![cfg(unix)]

#[allow(unreachable_pub, dead_code)] // other packages use all of it
#[path = "../../../tests/src/blocks.rs"]
mod blocks;
mod commands;
mod doctor;
mod documents;
mod neuron;
mod privileges;
mod real_nsys;
mod signals;
mod stand_in;
