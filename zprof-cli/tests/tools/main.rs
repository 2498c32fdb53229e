//! The commands that run programs under other tools. All tools here are stand-ins, small scripts that write down what they
//! are given, but in `real_nsys`.
#![cfg(unix)]

mod commands;
mod doctor;
mod neuron;
mod privileges;
mod real_nsys;
mod signals;
mod stand_in;
