/* machine.h - the name of this machine's processor. */
#ifndef MS_CORE_MACHINE_H
#define MS_CORE_MACHINE_H

enum { MS_MACHINE_TEXT = 256 };

/* Writes the processor's name, "AMD EPYC 7B13", or "unknown". */
void ms_machine_cpu(char text[MS_MACHINE_TEXT]);

#endif
