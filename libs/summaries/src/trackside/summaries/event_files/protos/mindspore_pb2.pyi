from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Event(_message.Message):
    __slots__ = ("wall_time", "step", "version", "graph_def", "summary", "explain")
    WALL_TIME_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    GRAPH_DEF_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    EXPLAIN_FIELD_NUMBER: _ClassVar[int]
    wall_time: float
    step: int
    version: str
    graph_def: Graph
    summary: Summary
    explain: bytes
    def __init__(self, wall_time: _Optional[float] = ..., step: _Optional[int] = ..., version: _Optional[str] = ..., graph_def: _Optional[_Union[Graph, _Mapping]] = ..., summary: _Optional[_Union[Summary, _Mapping]] = ..., explain: _Optional[bytes] = ...) -> None: ...

class Summary(_message.Message):
    __slots__ = ("value",)
    class Value(_message.Message):
        __slots__ = ("tag", "scalar_value", "image", "tensor", "histogram", "loss_landscape")
        TAG_FIELD_NUMBER: _ClassVar[int]
        SCALAR_VALUE_FIELD_NUMBER: _ClassVar[int]
        IMAGE_FIELD_NUMBER: _ClassVar[int]
        TENSOR_FIELD_NUMBER: _ClassVar[int]
        HISTOGRAM_FIELD_NUMBER: _ClassVar[int]
        LOSS_LANDSCAPE_FIELD_NUMBER: _ClassVar[int]
        tag: str
        scalar_value: float
        image: Summary.Image
        tensor: Tensor
        histogram: Summary.Histogram
        loss_landscape: LossLandscape
        def __init__(self, tag: _Optional[str] = ..., scalar_value: _Optional[float] = ..., image: _Optional[_Union[Summary.Image, _Mapping]] = ..., tensor: _Optional[_Union[Tensor, _Mapping]] = ..., histogram: _Optional[_Union[Summary.Histogram, _Mapping]] = ..., loss_landscape: _Optional[_Union[LossLandscape, _Mapping]] = ...) -> None: ...
    class Image(_message.Message):
        __slots__ = ("height", "width", "colorspace", "encoded_image")
        HEIGHT_FIELD_NUMBER: _ClassVar[int]
        WIDTH_FIELD_NUMBER: _ClassVar[int]
        COLORSPACE_FIELD_NUMBER: _ClassVar[int]
        ENCODED_IMAGE_FIELD_NUMBER: _ClassVar[int]
        height: int
        width: int
        colorspace: int
        encoded_image: bytes
        def __init__(self, height: _Optional[int] = ..., width: _Optional[int] = ..., colorspace: _Optional[int] = ..., encoded_image: _Optional[bytes] = ...) -> None: ...
    class Histogram(_message.Message):
        __slots__ = ("buckets", "nan_count", "pos_inf_count", "neg_inf_count", "max", "min", "sum", "count")
        class Bucket(_message.Message):
            __slots__ = ("left", "width", "count")
            LEFT_FIELD_NUMBER: _ClassVar[int]
            WIDTH_FIELD_NUMBER: _ClassVar[int]
            COUNT_FIELD_NUMBER: _ClassVar[int]
            left: float
            width: float
            count: int
            def __init__(self, left: _Optional[float] = ..., width: _Optional[float] = ..., count: _Optional[int] = ...) -> None: ...
        BUCKETS_FIELD_NUMBER: _ClassVar[int]
        NAN_COUNT_FIELD_NUMBER: _ClassVar[int]
        POS_INF_COUNT_FIELD_NUMBER: _ClassVar[int]
        NEG_INF_COUNT_FIELD_NUMBER: _ClassVar[int]
        MAX_FIELD_NUMBER: _ClassVar[int]
        MIN_FIELD_NUMBER: _ClassVar[int]
        SUM_FIELD_NUMBER: _ClassVar[int]
        COUNT_FIELD_NUMBER: _ClassVar[int]
        buckets: _containers.RepeatedCompositeFieldContainer[Summary.Histogram.Bucket]
        nan_count: int
        pos_inf_count: int
        neg_inf_count: int
        max: float
        min: float
        sum: float
        count: int
        def __init__(self, buckets: _Optional[_Iterable[_Union[Summary.Histogram.Bucket, _Mapping]]] = ..., nan_count: _Optional[int] = ..., pos_inf_count: _Optional[int] = ..., neg_inf_count: _Optional[int] = ..., max: _Optional[float] = ..., min: _Optional[float] = ..., sum: _Optional[float] = ..., count: _Optional[int] = ...) -> None: ...
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: _containers.RepeatedCompositeFieldContainer[Summary.Value]
    def __init__(self, value: _Optional[_Iterable[_Union[Summary.Value, _Mapping]]] = ...) -> None: ...

class LossLandscape(_message.Message):
    __slots__ = ("landscape", "loss_path", "metadata", "convergence_point")
    class Point(_message.Message):
        __slots__ = ("x", "y", "z")
        X_FIELD_NUMBER: _ClassVar[int]
        Y_FIELD_NUMBER: _ClassVar[int]
        Z_FIELD_NUMBER: _ClassVar[int]
        x: Tensor
        y: Tensor
        z: Tensor
        def __init__(self, x: _Optional[_Union[Tensor, _Mapping]] = ..., y: _Optional[_Union[Tensor, _Mapping]] = ..., z: _Optional[_Union[Tensor, _Mapping]] = ...) -> None: ...
    class LossPath(_message.Message):
        __slots__ = ("intervals", "points")
        INTERVALS_FIELD_NUMBER: _ClassVar[int]
        POINTS_FIELD_NUMBER: _ClassVar[int]
        intervals: _containers.RepeatedScalarFieldContainer[int]
        points: LossLandscape.Point
        def __init__(self, intervals: _Optional[_Iterable[int]] = ..., points: _Optional[_Union[LossLandscape.Point, _Mapping]] = ...) -> None: ...
    class Metadata(_message.Message):
        __slots__ = ("decomposition", "unit", "step_per_epoch")
        DECOMPOSITION_FIELD_NUMBER: _ClassVar[int]
        UNIT_FIELD_NUMBER: _ClassVar[int]
        STEP_PER_EPOCH_FIELD_NUMBER: _ClassVar[int]
        decomposition: str
        unit: str
        step_per_epoch: int
        def __init__(self, decomposition: _Optional[str] = ..., unit: _Optional[str] = ..., step_per_epoch: _Optional[int] = ...) -> None: ...
    LANDSCAPE_FIELD_NUMBER: _ClassVar[int]
    LOSS_PATH_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    CONVERGENCE_POINT_FIELD_NUMBER: _ClassVar[int]
    landscape: LossLandscape.Point
    loss_path: LossLandscape.LossPath
    metadata: LossLandscape.Metadata
    convergence_point: LossLandscape.Point
    def __init__(self, landscape: _Optional[_Union[LossLandscape.Point, _Mapping]] = ..., loss_path: _Optional[_Union[LossLandscape.LossPath, _Mapping]] = ..., metadata: _Optional[_Union[LossLandscape.Metadata, _Mapping]] = ..., convergence_point: _Optional[_Union[LossLandscape.Point, _Mapping]] = ...) -> None: ...

class Tensor(_message.Message):
    __slots__ = ("dims", "data_type", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "raw_data")
    DIMS_FIELD_NUMBER: _ClassVar[int]
    DATA_TYPE_FIELD_NUMBER: _ClassVar[int]
    FLOAT_DATA_FIELD_NUMBER: _ClassVar[int]
    INT32_DATA_FIELD_NUMBER: _ClassVar[int]
    INT64_DATA_FIELD_NUMBER: _ClassVar[int]
    DOUBLE_DATA_FIELD_NUMBER: _ClassVar[int]
    UINT64_DATA_FIELD_NUMBER: _ClassVar[int]
    RAW_DATA_FIELD_NUMBER: _ClassVar[int]
    dims: _containers.RepeatedScalarFieldContainer[int]
    data_type: int
    float_data: _containers.RepeatedScalarFieldContainer[float]
    int32_data: _containers.RepeatedScalarFieldContainer[int]
    int64_data: _containers.RepeatedScalarFieldContainer[int]
    double_data: _containers.RepeatedScalarFieldContainer[float]
    uint64_data: _containers.RepeatedScalarFieldContainer[int]
    raw_data: bytes
    def __init__(self, dims: _Optional[_Iterable[int]] = ..., data_type: _Optional[int] = ..., float_data: _Optional[_Iterable[float]] = ..., int32_data: _Optional[_Iterable[int]] = ..., int64_data: _Optional[_Iterable[int]] = ..., double_data: _Optional[_Iterable[float]] = ..., uint64_data: _Optional[_Iterable[int]] = ..., raw_data: _Optional[bytes] = ...) -> None: ...

class Model(_message.Message):
    __slots__ = ("graph",)
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    graph: Graph
    def __init__(self, graph: _Optional[_Union[Graph, _Mapping]] = ...) -> None: ...

class Graph(_message.Message):
    __slots__ = ("node", "name", "parameters", "const_vals")
    class Node(_message.Message):
        __slots__ = ("input", "name", "op_type", "scope", "full_name", "instance_name")
        class Input(_message.Message):
            __slots__ = ("name", "type")
            NAME_FIELD_NUMBER: _ClassVar[int]
            TYPE_FIELD_NUMBER: _ClassVar[int]
            name: str
            type: int
            def __init__(self, name: _Optional[str] = ..., type: _Optional[int] = ...) -> None: ...
        INPUT_FIELD_NUMBER: _ClassVar[int]
        NAME_FIELD_NUMBER: _ClassVar[int]
        OP_TYPE_FIELD_NUMBER: _ClassVar[int]
        SCOPE_FIELD_NUMBER: _ClassVar[int]
        FULL_NAME_FIELD_NUMBER: _ClassVar[int]
        INSTANCE_NAME_FIELD_NUMBER: _ClassVar[int]
        input: _containers.RepeatedCompositeFieldContainer[Graph.Node.Input]
        name: str
        op_type: str
        scope: str
        full_name: str
        instance_name: str
        def __init__(self, input: _Optional[_Iterable[_Union[Graph.Node.Input, _Mapping]]] = ..., name: _Optional[str] = ..., op_type: _Optional[str] = ..., scope: _Optional[str] = ..., full_name: _Optional[str] = ..., instance_name: _Optional[str] = ...) -> None: ...
    class Parameter(_message.Message):
        __slots__ = ("name",)
        NAME_FIELD_NUMBER: _ClassVar[int]
        name: str
        def __init__(self, name: _Optional[str] = ...) -> None: ...
    class Constant(_message.Message):
        __slots__ = ("key", "full_name")
        KEY_FIELD_NUMBER: _ClassVar[int]
        FULL_NAME_FIELD_NUMBER: _ClassVar[int]
        key: str
        full_name: str
        def __init__(self, key: _Optional[str] = ..., full_name: _Optional[str] = ...) -> None: ...
    NODE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    CONST_VALS_FIELD_NUMBER: _ClassVar[int]
    node: _containers.RepeatedCompositeFieldContainer[Graph.Node]
    name: str
    parameters: _containers.RepeatedCompositeFieldContainer[Graph.Parameter]
    const_vals: _containers.RepeatedCompositeFieldContainer[Graph.Constant]
    def __init__(self, node: _Optional[_Iterable[_Union[Graph.Node, _Mapping]]] = ..., name: _Optional[str] = ..., parameters: _Optional[_Iterable[_Union[Graph.Parameter, _Mapping]]] = ..., const_vals: _Optional[_Iterable[_Union[Graph.Constant, _Mapping]]] = ...) -> None: ...

class LineageEvent(_message.Message):
    __slots__ = ("wall_time", "step", "version", "train_lineage", "evaluation_lineage", "dataset_graph", "user_defined_info")
    WALL_TIME_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TRAIN_LINEAGE_FIELD_NUMBER: _ClassVar[int]
    EVALUATION_LINEAGE_FIELD_NUMBER: _ClassVar[int]
    DATASET_GRAPH_FIELD_NUMBER: _ClassVar[int]
    USER_DEFINED_INFO_FIELD_NUMBER: _ClassVar[int]
    wall_time: float
    step: int
    version: str
    train_lineage: TrainLineage
    evaluation_lineage: EvaluationLineage
    dataset_graph: DatasetGraph
    user_defined_info: UserDefinedInfo
    def __init__(self, wall_time: _Optional[float] = ..., step: _Optional[int] = ..., version: _Optional[str] = ..., train_lineage: _Optional[_Union[TrainLineage, _Mapping]] = ..., evaluation_lineage: _Optional[_Union[EvaluationLineage, _Mapping]] = ..., dataset_graph: _Optional[_Union[DatasetGraph, _Mapping]] = ..., user_defined_info: _Optional[_Union[UserDefinedInfo, _Mapping]] = ...) -> None: ...

class TrainLineage(_message.Message):
    __slots__ = ("hyper_parameters", "train_dataset", "algorithm", "model")
    class HyperParameters(_message.Message):
        __slots__ = ("optimizer", "learning_rate", "loss_function", "epoch", "parallel_mode", "device_num", "batch_size")
        OPTIMIZER_FIELD_NUMBER: _ClassVar[int]
        LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
        LOSS_FUNCTION_FIELD_NUMBER: _ClassVar[int]
        EPOCH_FIELD_NUMBER: _ClassVar[int]
        PARALLEL_MODE_FIELD_NUMBER: _ClassVar[int]
        DEVICE_NUM_FIELD_NUMBER: _ClassVar[int]
        BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
        optimizer: str
        learning_rate: float
        loss_function: str
        epoch: int
        parallel_mode: str
        device_num: int
        batch_size: int
        def __init__(self, optimizer: _Optional[str] = ..., learning_rate: _Optional[float] = ..., loss_function: _Optional[str] = ..., epoch: _Optional[int] = ..., parallel_mode: _Optional[str] = ..., device_num: _Optional[int] = ..., batch_size: _Optional[int] = ...) -> None: ...
    class TrainDataset(_message.Message):
        __slots__ = ("train_dataset_path", "train_dataset_size")
        TRAIN_DATASET_PATH_FIELD_NUMBER: _ClassVar[int]
        TRAIN_DATASET_SIZE_FIELD_NUMBER: _ClassVar[int]
        train_dataset_path: str
        train_dataset_size: int
        def __init__(self, train_dataset_path: _Optional[str] = ..., train_dataset_size: _Optional[int] = ...) -> None: ...
    class Algorithm(_message.Message):
        __slots__ = ("network", "loss")
        NETWORK_FIELD_NUMBER: _ClassVar[int]
        LOSS_FIELD_NUMBER: _ClassVar[int]
        network: str
        loss: float
        def __init__(self, network: _Optional[str] = ..., loss: _Optional[float] = ...) -> None: ...
    class SavedModel(_message.Message):
        __slots__ = ("path", "size")
        PATH_FIELD_NUMBER: _ClassVar[int]
        SIZE_FIELD_NUMBER: _ClassVar[int]
        path: str
        size: int
        def __init__(self, path: _Optional[str] = ..., size: _Optional[int] = ...) -> None: ...
    HYPER_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    TRAIN_DATASET_FIELD_NUMBER: _ClassVar[int]
    ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    hyper_parameters: TrainLineage.HyperParameters
    train_dataset: TrainLineage.TrainDataset
    algorithm: TrainLineage.Algorithm
    model: TrainLineage.SavedModel
    def __init__(self, hyper_parameters: _Optional[_Union[TrainLineage.HyperParameters, _Mapping]] = ..., train_dataset: _Optional[_Union[TrainLineage.TrainDataset, _Mapping]] = ..., algorithm: _Optional[_Union[TrainLineage.Algorithm, _Mapping]] = ..., model: _Optional[_Union[TrainLineage.SavedModel, _Mapping]] = ...) -> None: ...

class EvaluationLineage(_message.Message):
    __slots__ = ("metric", "valid_dataset")
    class ValidDataset(_message.Message):
        __slots__ = ("valid_dataset_path", "valid_dataset_size")
        VALID_DATASET_PATH_FIELD_NUMBER: _ClassVar[int]
        VALID_DATASET_SIZE_FIELD_NUMBER: _ClassVar[int]
        valid_dataset_path: str
        valid_dataset_size: int
        def __init__(self, valid_dataset_path: _Optional[str] = ..., valid_dataset_size: _Optional[int] = ...) -> None: ...
    METRIC_FIELD_NUMBER: _ClassVar[int]
    VALID_DATASET_FIELD_NUMBER: _ClassVar[int]
    metric: str
    valid_dataset: EvaluationLineage.ValidDataset
    def __init__(self, metric: _Optional[str] = ..., valid_dataset: _Optional[_Union[EvaluationLineage.ValidDataset, _Mapping]] = ...) -> None: ...

class UserDefinedInfo(_message.Message):
    __slots__ = ("user_info", "map_dict", "map_int32", "map_str", "map_double")
    class MapDictEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: UserDefinedInfo
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[UserDefinedInfo, _Mapping]] = ...) -> None: ...
    class MapInt32Entry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class MapStrEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class MapDoubleEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    USER_INFO_FIELD_NUMBER: _ClassVar[int]
    MAP_DICT_FIELD_NUMBER: _ClassVar[int]
    MAP_INT32_FIELD_NUMBER: _ClassVar[int]
    MAP_STR_FIELD_NUMBER: _ClassVar[int]
    MAP_DOUBLE_FIELD_NUMBER: _ClassVar[int]
    user_info: _containers.RepeatedCompositeFieldContainer[UserDefinedInfo]
    map_dict: _containers.MessageMap[str, UserDefinedInfo]
    map_int32: _containers.ScalarMap[str, int]
    map_str: _containers.ScalarMap[str, str]
    map_double: _containers.ScalarMap[str, float]
    def __init__(self, user_info: _Optional[_Iterable[_Union[UserDefinedInfo, _Mapping]]] = ..., map_dict: _Optional[_Mapping[str, UserDefinedInfo]] = ..., map_int32: _Optional[_Mapping[str, int]] = ..., map_str: _Optional[_Mapping[str, str]] = ..., map_double: _Optional[_Mapping[str, float]] = ...) -> None: ...

class DatasetGraph(_message.Message):
    __slots__ = ("children", "parameter", "operations", "sampler")
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    PARAMETER_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    SAMPLER_FIELD_NUMBER: _ClassVar[int]
    children: _containers.RepeatedCompositeFieldContainer[DatasetGraph]
    parameter: OperationParameter
    operations: _containers.RepeatedCompositeFieldContainer[Operation]
    sampler: Operation
    def __init__(self, children: _Optional[_Iterable[_Union[DatasetGraph, _Mapping]]] = ..., parameter: _Optional[_Union[OperationParameter, _Mapping]] = ..., operations: _Optional[_Iterable[_Union[Operation, _Mapping]]] = ..., sampler: _Optional[_Union[Operation, _Mapping]] = ...) -> None: ...

class Operation(_message.Message):
    __slots__ = ("operation_param", "size", "weights")
    OPERATION_PARAM_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    operation_param: OperationParameter
    size: _containers.RepeatedScalarFieldContainer[int]
    weights: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, operation_param: _Optional[_Union[OperationParameter, _Mapping]] = ..., size: _Optional[_Iterable[int]] = ..., weights: _Optional[_Iterable[float]] = ...) -> None: ...

class OperationParameter(_message.Message):
    __slots__ = ("map_str", "map_str_list", "map_bool", "map_int", "map_double")
    class Strings(_message.Message):
        __slots__ = ("str_value",)
        STR_VALUE_FIELD_NUMBER: _ClassVar[int]
        str_value: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, str_value: _Optional[_Iterable[str]] = ...) -> None: ...
    class MapStrEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class MapStrListEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: OperationParameter.Strings
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[OperationParameter.Strings, _Mapping]] = ...) -> None: ...
    class MapBoolEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bool
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bool] = ...) -> None: ...
    class MapIntEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class MapDoubleEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    MAP_STR_FIELD_NUMBER: _ClassVar[int]
    MAP_STR_LIST_FIELD_NUMBER: _ClassVar[int]
    MAP_BOOL_FIELD_NUMBER: _ClassVar[int]
    MAP_INT_FIELD_NUMBER: _ClassVar[int]
    MAP_DOUBLE_FIELD_NUMBER: _ClassVar[int]
    map_str: _containers.ScalarMap[str, str]
    map_str_list: _containers.MessageMap[str, OperationParameter.Strings]
    map_bool: _containers.ScalarMap[str, bool]
    map_int: _containers.ScalarMap[str, int]
    map_double: _containers.ScalarMap[str, float]
    def __init__(self, map_str: _Optional[_Mapping[str, str]] = ..., map_str_list: _Optional[_Mapping[str, OperationParameter.Strings]] = ..., map_bool: _Optional[_Mapping[str, bool]] = ..., map_int: _Optional[_Mapping[str, int]] = ..., map_double: _Optional[_Mapping[str, float]] = ...) -> None: ...
