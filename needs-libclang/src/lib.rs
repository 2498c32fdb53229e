//! Empty. The build script looks for libclang, which zprof's feature `nvtx` needs, and gives advice where it is missing:
//! sooner, and in plainer words, than the bindings of NVTX would.
