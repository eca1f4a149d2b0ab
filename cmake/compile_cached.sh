#!/bin/sh
# compile_cached.sh <ccache> <compiler and its arguments>: compiles by way of ccache.
#
# Two checkouts at different paths share the cache: paths are hashed relative to the source tree and
# the working directory is left out. A precompiled header differs with every run of the compiler, and
# so would the key of everything that uses it: ccache takes the hash of its preprocessed text instead,
# which is left beside it. What a file depends on is taken from the compiler's own list, which saves
# preprocessing it first.
CCACHE_BASEDIR=${0%/cmake/*}
CCACHE_NOHASHDIR=1
CCACHE_DEPEND=1
CCACHE_PCH_EXTSUM=1
CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
export CCACHE_BASEDIR CCACHE_DEPEND CCACHE_NOHASHDIR CCACHE_PCH_EXTSUM CCACHE_SLOPPINESS

case " $* " in
  *.gch\ *) ;;
  *) exec "$@" ;;
esac

"$@" || exit
shift
output=
follows=
for argument do
  shift
  if [ -n "$follows" ]; then
    output=$argument
    follows=
  elif [ "$argument" = -o ]; then
    follows=1
  else
    set -- "$@" "$argument"
  fi
done
# With -dD: macros of the header are for its users, too.
text=$output.text
rm -f "$output.sum"
"$@" -E -P -dD -o "$text" && sha256sum < "$text" > "$output.sum"
rm -f "$text"
