/* library_stub.c - a shared library that knows its version, for library_test. */
__attribute__((visibility("default"))) int ms_stub_version(void);

int ms_stub_version(void) { return VERSION; }
