//! Behaviour of zprof through its face, one module a subject.

<<<<<<< HEAD
mod shapes;
=======
mod post_process;
>>>>>>> xspace
