/* memory.c - Linux's own figures: /proc/meminfo, and the limits of control groups, versions 1 and
 * 2.  A group that has no limit says "max", or a number near 2^63. */
#include "core/memory.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROUPS "/sys/fs/cgroup"

static const uint64_t no_limit = (uint64_t)1 << 60;

bool ms_memory_line(const char *meminfo, const char *name, uint64_t *bytes)
{
    const size_t n = strlen(name);
    for (const char *line = meminfo; line != NULL && *line != '\0';) {
        if (strncmp(line, name, n) == 0 && line[n] == ':') {
            char          *end = NULL;
            const uint64_t kib = strtoull(line + n + 1, &end, 10);
            if (strncmp(end, " kB", 3) != 0) return false;
            *bytes = kib * 1024;
            return true;
        }
        line = strchr(line, '\n');
        if (line != NULL) line++;
    }
    return false;
}

/* Reads the whole of a small file; "" if it cannot be read. */
static void read_file(const char *path, char *text, size_t bytes)
{
    FILE        *f = fopen(path, "r");
    const size_t n = f == NULL ? 0 : fread(text, 1, bytes - 1, f);
    if (f != NULL) fclose(f);
    text[n] = '\0';
}

static uint64_t read_number(const char *dir, const char *name, uint64_t otherwise)
{
    char path[600], text[64], *end = NULL;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    read_file(path, text, sizeof text);
    const uint64_t value = strtoull(text, &end, 10);
    return end != text ? value : otherwise;
}

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Lowers *m to the limit of the control group in `dir`, if it has one. */
static void lower(ms_memory *m, const char *dir, const char *limit_name, const char *use_name)
{
    const uint64_t limit = read_number(dir, limit_name, UINT64_MAX);
    const uint64_t use   = read_number(dir, use_name, 0);
    if (limit >= no_limit) return;
    m->total     = smaller(m->total, limit);
    m->available = smaller(m->available, limit > use ? limit - use : 0);
}

/* A line of /proc/self/cgroup is "4:memory:/path" in version 1, "0::/path" in version 2.  In a
 * container that path may be the host's, and then the limit is in the root. */
static void lower_by_groups(ms_memory *m)
{
    static const struct {
        const char *controllers, *root, *limit, *use;
    } versions[] = {
        { ":memory:", GROUPS "/memory", "memory.limit_in_bytes", "memory.usage_in_bytes" },
        { "0::", GROUPS, "memory.max", "memory.current" },
    };
    char text[4096], dir[500];

    read_file("/proc/self/cgroup", text, sizeof text);
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        const char *line = strstr(text, versions[i].controllers);
        if (line == NULL) continue;
        line += strlen(versions[i].controllers);
        snprintf(dir, sizeof dir, "%s%.*s", versions[i].root, (int)strcspn(line, "\n"), line);
        lower(m, dir, versions[i].limit, versions[i].use);
        lower(m, versions[i].root, versions[i].limit, versions[i].use);
    }
}

ms_memory ms_memory_here(void)
{
    char      text[8192];
    ms_memory m    = { 0 };
    uint64_t  swap = 0;

    read_file("/proc/meminfo", text, sizeof text);
    if (!ms_memory_line(text, "MemTotal", &m.total) ||
        !ms_memory_line(text, "MemAvailable", &m.available))
        return (ms_memory){ 0 };
    (void)ms_memory_line(text, "SwapTotal", &swap);
    lower_by_groups(&m);
    m.total += swap; /* an upper bound: a group may limit its swap as well */
    return m;
}
