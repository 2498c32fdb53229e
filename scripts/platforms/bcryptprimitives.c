/* The one function of bcryptprimitives.dll that Rust's standard library calls, for versions of wine that lack the library. */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID bytes, ULONG size);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T size) {
    while (size > 0) {
        const ULONG part = size < 4096 ? (ULONG)size : 4096;
        if (!SystemFunction036(bytes, part)) return FALSE;
        bytes += part;
        size -= part;
    }
    return TRUE;
}
