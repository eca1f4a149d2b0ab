#!/bin/sh
# mpirun.sh <mpirun> <count> <program> [arguments]: on one machine of any size, with or without a
# network, as any user.
mpirun=$1
count=$2
shift 2
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_btl=self,vader OMPI_MCA_pml=ob1 OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_plm_rsh_agent=false
exec "$mpirun" -n "$count" "$@"
