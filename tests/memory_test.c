/* memory_test.c - the kernel's memory statistics: their lines, and those of this machine. */
#include "check.h"

#include <stdio.h>
#include <unistd.h>

#include "core/memory.h"

TEST(lines_of_meminfo_are_read_in_bytes)
{
    static const char text[] = "MemTotal:       24684100 kB\nMemFree:               1 kB\n"
                               "MemAvailable:   23686668 kB\nSwapTotal:             0 kB\n"
                               "HugePages_Total:       5\n";
    uint64_t          bytes  = 7;

    CHECK(ms_memory_line(text, "MemTotal", &bytes) && bytes == 24684100ull * 1024, "MemTotal");
    CHECK(ms_memory_line(text, "MemAvailable", &bytes) && bytes == 23686668ull * 1024, "available");
    CHECK(ms_memory_line(text, "SwapTotal", &bytes) && bytes == 0, "SwapTotal");
    bytes = 7;
    CHECK(!ms_memory_line(text, "Mem", &bytes) && !ms_memory_line(text, "Total", &bytes) &&
              !ms_memory_line("", "MemTotal", &bytes) && bytes == 7,
          "found what is not there");
}

TEST(available_memory_is_part_of_the_total)
{
    const ms_memory m = ms_memory_here();
    if (m.total == 0) SKIP("this system does not say how much memory it has");
    CHECK(m.available > 0 && m.available <= m.total, "%llu of %llu",
          (unsigned long long)m.available, (unsigned long long)m.total);
    CHECK(m.total >= (uint64_t)1 << 27, "%llu bytes would not run these tests",
          (unsigned long long)m.total);
}
