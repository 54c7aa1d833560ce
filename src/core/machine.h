/* machine.h - what this machine is called, for people. */
#ifndef MS_CORE_MACHINE_H
#define MS_CORE_MACHINE_H

enum { MS_MACHINE_TEXT = 256 };

/* The processor's name, "AMD EPYC 7B13"; "unknown" where the system does not say. */
void ms_machine_cpu(char text[MS_MACHINE_TEXT]);

#endif
