"""PopTorch's public names and parameters, which programs rely on.

A line is a function, a class with its constructor, or (indented) a method or property of the class
above. A name that ends in "..." takes any arguments.
"""

PACKAGE = """
DataLoader(options, dataset, batch_size=, shuffle=, num_workers=, drop_last=, persistent_workers=, auto_distributed_partitioning=, mode=, async_options=, rebatched_worker_size=, batch_sampler=, **)
    combinedBatchSize
    options
    terminate()
AsynchronousDataAccessor(dataset, buffer_size=, miss_sleep_time_in_ms=, load_indefinitely=, early_preload=, sharing_strategy=, rebatched_size=)
    terminate()
trainingModel(model, options=, optimizer=)
inferenceModel(model, options=)
poptorchAtExit()
ipuHardwareIsAvailable(num_ipus=)
ipuHardwareVersion()
setLogLevel(level)
ICustomArgParser()
    yieldTensors(struct)
    reconstruct(original_structure, tensor_iterator)
registerCustomArgParser(arg_data_type, arg_parser)
isRunningOnIpu()
autocast(enabled=)
ctc_beam_search_decoder(probs, lengths, blank=, beam_width=, top_paths=)
ipu_print_tensor(tensor, title=, print_gradient=, summarise_threshold=, edge_items=, max_line_width=, digits=, float_format=, separator=, open_bracket=, close_bracket=)
for_loop(count, body, inputs)
cond(condition, then_body, then_inps, else_body, else_inps)
nop(tensor)
dynamic_slice(tensor, dim, start, size, step)
dynamic_update(input, src, dim, start, size)
recomputationCheckpoint(*tensors)
serializedMatMul(lhs, rhs, mode, factor=, keep_precision=)
set_available_memory(tensor, available_memory_proportion)
set_overlap_for_input(input_tensors, mode)
set_overlap_for_output(output_tensors, mode)
Block(user_id=, ipu_id=)
    useAutoId()
    start(user_id=, ipu_id=)
removeBlocks(module)
LegacyBeginBlockFn(layer_to_call, user_id=, ipu_id=)
    __call__(*input, **kwargs)
Attribute(**attributes)
BeginBlock(layer_to_call, user_id=, ipu_id=)
BlockFunction(user_id=, ipu_id=)
custom_op(inputs, name, domain, domain_version, example_outputs, attributes=)
CPU(layer_to_call, ID)
    __call__(*input, **kwargs)
identity_loss(x, reduction)
MultiConv()
    availableMemoryProportions(value)
    partialsTypes(value)
    enableConvDithering(value)
    planType(value)
    perConvReservedTiles(value)
    cycleBackOff(value)
NameScope(name)
TensorLocationSettings()
    minElementsForOffChip(min_elements)
    minElementsForReplicatedTensorSharding(min_elements)
    useOnChipStorage(use=)
    useReplicatedTensorSharding(use=)
    useIOTilesToLoad(use=)
    useIOTilesToStore(use=)
Stage(*block_ids)
    blocks
    ipu(ipu)
Phase(*arg)
    stage(idx)
    ipus(*ipus)
PipelinedExecution(*args)
    stage(block_id)
ShardedExecution(*args)
    stage(block_id)
ParallelPhasedExecution(*phases)
    phase(phase)
    stage(block_id)
    useSeparateBackwardPhase(use=)
    sendTensorsOffChipAfterFwd(off_chip=)
SerialPhasedExecution(*phases)
    phase(phase)
    stage(block_id)
    useSeparateBackwardPhase(use=)
    setTensorsLiveness(liveness)
Options()
    from_json(string)
    sourceLocationExcludes(excludes)
    appendToLocationExcludes(*excludes)
    showCompilationProgressBar(show=)
    loadFromFile(filepath)
    relaxOptimizerAttributesChecks(relax=)
    TensorLocations
    Distributed
    Jit
    Precision
    Training
    _Popart
    autoRoundNumIPUs(auto_round_num_ipus=)
    deviceIterations(device_iterations)
    setExecutionStrategy(strategy)
    setAvailableMemoryProportion(available_memory_proportion)
    replicationFactor(replication_factor)
    inputReplicaGrouping(input_group_size, input_group_type)
    broadcastBuffers(broadcast_buffers=)
    logDir(log_dir)
    maxRepeatLogs(max_lines)
    modelName(name)
    enableExecutableCaching(path)
    useIpuModel(use_model)
    connectionType(connection_type)
    syncPattern(sync_pattern)
    useIpuId(ipu_id)
    useOfflineIpuTarget(ipu_version=)
    anchorTensor(short_name, long_name, output_mode=, output_return_period=)
    outputMode(output_mode, output_return_period=)
    defaultOutputMode()
    randomSeed(random_seed)
    enableStableNorm(enabled)
    enableSyntheticData(enabled)
    logCycleCount(log_cycle_count)
    enableProfiling(profile_dir=)
    disableModuleNamescope()
    updatableNamedBuffers(buffers)
    toDict()
    clone()
load(filename, edit_opts_fn=)
PoplarExecutor(...)
    __call__(*args, **kwargs)
    load_state_dict(state_dict, strict=)
    model
    options
    getTensorNames()
    getAnchoredTensor(short_name)
    copyWeightsToHostIfNeeded()
    copyWeightsToHost()
    copyWeightsToDevice()
    copyNamedBuffersToDevice()
    setOptimizer(optimizer)
    compile(*args, **kwargs)
    loadExecutable(filename)
    save(filename, export_model=, save_rng_state=)
    compileAndExport(filename, *args, **kwargs)
    rng_state
    cycleCount()
    getPerfCounters()
    compilationTime
    getHostIpuLatency()
    getComputeLatency()
    getIpuHostLatency()
    getLatency()
    destroy()
    isAttachedToDevice()
    isCompiled()
    detachFromDevice()
    attachToDevice()
registerPreCompileHook(hook)
registerPostCompileHook(hook)
"""

#: Names of submodules, in the same form.
SUBMODULES = {
    "option_groups": """
_JitOptions(...)
    traceModel(trace_model)
_PrecisionOptions(...)
    autocastEnabled(enabled)
    autocastPolicy(policy)
    halfFloatCasting(half_float_casting)
    runningStatisticsAlwaysFloat(value)
    enableFloatingPointExceptions(enabled)
    enableStochasticRounding(enabled)
    setPartialsType(dtype)
_TrainingOptions(...)
    gradientAccumulation(gradient_accumulation)
    accumulationAndReplicationReductionType(reduction_type)
    setMeanAccumulationAndReplicationReductionStrategy(mean_reduction_strategy)
    setAutomaticLossScaling(enabled)
    setConvolutionDithering(enabled)
_PopartOptions(...)
    checkIsFrozen(option=)
    set(key, value)
    setEngineOptions(engine_options)
    setPatterns(patterns, level=)
_DistributedOptions(...)
    disable()
    setEnvVarNames(var_num_processes, var_process_id)
    configureProcessId(process_id, num_processes)
    processId
    numProcesses
_TensorLocationOptions(...)
    numIOTiles(num_tiles)
    setActivationLocation(location)
    setWeightLocation(location)
    setOptimizerLocation(location)
    setAccumulatorLocation(location)
""",
    "optim": """
VariableAttributes(variable_attributes, allowed_attributes)
    isConstant(attr)
    markAsConstant(attr)
    markAsVariable(attr)
Optimizer()
    state_dict()
    load_state_dict(state)
    get_state_dict()
    set_state_dict(state)
    has_state()
SGD(params, lr, momentum=, dampening=, weight_decay=, nesterov=, maximize=, foreach=, differentiable=, loss_scaling=, velocity_scaling=, use_combined_accum=, accum_type=, velocity_accum_type=, max_grad_norm=)
Adam(params, lr=, betas=, eps=, weight_decay=, amsgrad=, foreach=, maximize=, capturable=, differentiable=, fused=, loss_scaling=, accum_type=, first_order_momentum_accum_type=, second_order_momentum_accum_type=, max_grad_norm=)
AdamW(params, lr=, betas=, eps=, weight_decay=, amsgrad=, maximize=, foreach=, capturable=, differentiable=, fused=, loss_scaling=, bias_correction=, accum_type=, first_order_momentum_accum_type=, second_order_momentum_accum_type=, max_grad_norm=)
RMSprop(params, lr=, alpha=, eps=, weight_decay=, momentum=, centered=, foreach=, maximize=, differentiable=, loss_scaling=, accum_type=, first_order_momentum_accum_type=, second_order_momentum_accum_type=, use_tf_variant=)
LAMB(params, lr=, betas=, eps=, weight_decay=, bias_correction=, loss_scaling=, max_weight_norm=, accum_type=, first_order_momentum_accum_type=, second_order_momentum_accum_type=)
    step(closure=)
""",
    "autocasting": """
Policy(fp16=, fp32=, promote=, demote=)
""",
    "profiling": """
Channel(name)
    instrument(obj, *methods)
    tracepoint(name)
""",
}

ENUMS = {
    "MeanReductionStrategy": "Running Post PostAndLoss",
    "DataLoaderMode": "Sync Async AsyncRebatched",
    "SharingStrategy": "SharedMemory FileSystem Fork ForkServer",
    "OutputMode": "Final EveryN All Sum Default",
    "ConnectionType": "Always OnDemand Never",
    "HalfFloatCastingBehavior": "FloatDowncastToHalf HalfUpcastToFloat Default",
    "ReductionType": "Sum Mean NoReduction",
    "SyncPattern": "Full SinglePipeline ReplicaAndLadder",
    "MatMulSerializationMode": "InputChannels ReducingDim OutputChannels Disabled",
    "Liveness": "AlwaysLive OffChipAfterFwd OffChipAfterFwdNoOverlap OffChipAfterEachPhase",
    "OverlapMode": "NoOverlap OverlapAccumulationLoop OverlapDeviceIterationLoop",
    "AutoStage": "SameAsIpu AutoIncrement",
    "MultiConvPlanType": "Parallel Serial",
    "CommGroupType": "All Consecutive Orthogonal NoGrouping",
    "VariableRetrievalMode": "OnePerGroup AllReplicas",
}

ERRORS = ["Error", "RecoverableError", "UnrecoverableError", "ConfigFileError"]

#: Names that are missing, with the feature that would bring them.
MISSING = {
    "registerGeometricCustomArgParsers": "PyTorch Geometric, which is not planned",
    "fps": "PyTorch Geometric, which is not planned",
    "nearest": "PyTorch Geometric, which is not planned",
    "CPU.execute": "PopTorch's own machinery",
    "CPU.registerPersistentData": "PopTorch's own machinery",
    "PipelinedExecution.backendOptions": "PopTorch's own machinery",
}
