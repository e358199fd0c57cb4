/* The one function of bcryptprimitives.dll that Rust's std imports, for releases of Wine that have no such library. */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE to, SIZE_T count) {
  return SystemFunction036(to, (ULONG)count);
}
