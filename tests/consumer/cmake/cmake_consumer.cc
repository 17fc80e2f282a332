// A C++ program that finds the installed library with find_package.
#include "consumer.h"

int main() { return round_trip("lynx44", 0.1, 0.4) != 0 || round_trip("int8-split", 0.005, 0.08) != 0 ? 1 : 0; }
