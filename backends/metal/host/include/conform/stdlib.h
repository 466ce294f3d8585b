// Metal's standard library for g++: the parts that Inductor emits and c10/metal uses.
#pragma once
#include <conform/language.h>

#include <conform/bfloat.h>
#include <conform/traits.h>
#include <conform/vector.h>

#include <conform/math.h>
#include <conform/integer.h>
#include <conform/atomic.h>
#include <conform/simdgroup.h>
#include <conform/launch.h>
