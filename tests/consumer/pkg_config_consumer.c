/* A C program that finds the installed library through pkg-config. */
#include "consumer.h"

int main(void) { return round_trip("nested44", 0.01, 0.1) || round_trip("f16", 0.001, 0.001); }
