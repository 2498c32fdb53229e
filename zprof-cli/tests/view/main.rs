//! `zprof view` as its clients see it: raw requests, a browser, the desktop's launcher, and XProf.

mod asked;
mod browser;
mod files;
mod hostile;
mod page;
mod served;
mod xprof;
