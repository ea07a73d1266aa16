// Run by the configuration: prints "<version> <serial|parallel>" of the HDF5 headers, then of the library they are
// linked with.
#include <dlfcn.h>
#include <hdf5.h>

#include <cstdio>

int main() {
  unsigned major = 0, minor = 0, release = 0;
  if (H5get_libversion(&major, &minor, &release) < 0) return 1;
#ifdef H5_HAVE_PARALLEL
  const char* headers = "parallel";
#else
  const char* headers = "serial";
#endif
  const char* library = dlsym(RTLD_DEFAULT, "H5Pset_fapl_mpio") ? "parallel" : "serial";
  std::printf("%d.%d.%d %s %u.%u.%u %s", H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE, headers, major, minor, release,
              library);
}
