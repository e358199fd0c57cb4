/* The only function of bcryptprimitives.dll that Rust's std imports, for versions of Wine that lack
   this library. */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE to, SIZE_T count) {
  return SystemFunction036(to, (ULONG)count);
}
