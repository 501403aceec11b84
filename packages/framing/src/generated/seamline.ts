// Written by scripts/generate.mjs from proto/seamline.proto with protobufjs-cli.
// @ts-nocheck
import $protobuf from "protobufjs/minimal.js";

const $Reader = $protobuf.Reader, $Writer = $protobuf.Writer, $util = $protobuf.util;
const $Object = $util.global.Object, $undefined = $util.global.undefined, $Error = $util.global.Error, $RangeError = $util.global.RangeError;

const $root: any = {};

export const seamline: any = $root.seamline = (() => {

    const seamline = {};

    seamline.v1 = (function() {

        const v1 = {};

        v1.Frame = (function() {

            const Frame = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            Frame.prototype.hello = null;
            Frame.prototype.link = null;
            Frame.prototype.open = null;
            Frame.prototype.close = null;
            Frame.prototype.cancel = null;
            Frame.prototype.rollback = null;
            Frame.prototype.ack = null;
            Frame.prototype.tensor = null;
            Frame.prototype.token = null;
            Frame.prototype.credit = null;
            Frame.prototype.heartbeat = null;
            Frame.prototype.probe = null;
            Frame.prototype.error = null;
            Frame.prototype.service = null;
            Frame.prototype.payload = null;

            let $oneOfFields;

            $Object.defineProperty(Frame.prototype, "kind", {
                get: $util.oneOfGetter($oneOfFields = ["hello", "link", "open", "close", "cancel", "rollback", "ack", "tensor", "token", "credit", "heartbeat", "probe", "error", "service"]),
                set: $util.oneOfSetter($oneOfFields)
            });

            // Virtual OneOf for proto3 optional field
            $Object.defineProperty(Frame.prototype, "_payload", {
                get: $util.oneOfGetter($oneOfFields = ["payload"]),
                set: $util.oneOfSetter($oneOfFields)
            });

            Frame.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.hello != null && $Object.hasOwnProperty.call(message, "hello"))
                    $root.seamline.v1.Hello.encode(message.hello, writer.uint32(10).fork(), _depth + 1).ldelim();
                if (message.link != null && $Object.hasOwnProperty.call(message, "link"))
                    $root.seamline.v1.Link.encode(message.link, writer.uint32(18).fork(), _depth + 1).ldelim();
                if (message.open != null && $Object.hasOwnProperty.call(message, "open"))
                    $root.seamline.v1.Open.encode(message.open, writer.uint32(26).fork(), _depth + 1).ldelim();
                if (message.close != null && $Object.hasOwnProperty.call(message, "close"))
                    $root.seamline.v1.Close.encode(message.close, writer.uint32(34).fork(), _depth + 1).ldelim();
                if (message.cancel != null && $Object.hasOwnProperty.call(message, "cancel"))
                    $root.seamline.v1.Cancel.encode(message.cancel, writer.uint32(42).fork(), _depth + 1).ldelim();
                if (message.rollback != null && $Object.hasOwnProperty.call(message, "rollback"))
                    $root.seamline.v1.Rollback.encode(message.rollback, writer.uint32(50).fork(), _depth + 1).ldelim();
                if (message.ack != null && $Object.hasOwnProperty.call(message, "ack"))
                    $root.seamline.v1.Ack.encode(message.ack, writer.uint32(58).fork(), _depth + 1).ldelim();
                if (message.tensor != null && $Object.hasOwnProperty.call(message, "tensor"))
                    $root.seamline.v1.Tensor.encode(message.tensor, writer.uint32(66).fork(), _depth + 1).ldelim();
                if (message.token != null && $Object.hasOwnProperty.call(message, "token"))
                    $root.seamline.v1.Token.encode(message.token, writer.uint32(74).fork(), _depth + 1).ldelim();
                if (message.credit != null && $Object.hasOwnProperty.call(message, "credit"))
                    $root.seamline.v1.Credit.encode(message.credit, writer.uint32(82).fork(), _depth + 1).ldelim();
                if (message.heartbeat != null && $Object.hasOwnProperty.call(message, "heartbeat"))
                    $root.seamline.v1.Heartbeat.encode(message.heartbeat, writer.uint32(90).fork(), _depth + 1).ldelim();
                if (message.probe != null && $Object.hasOwnProperty.call(message, "probe"))
                    $root.seamline.v1.Probe.encode(message.probe, writer.uint32(98).fork(), _depth + 1).ldelim();
                if (message.error != null && $Object.hasOwnProperty.call(message, "error"))
                    $root.seamline.v1.Error.encode(message.error, writer.uint32(106).fork(), _depth + 1).ldelim();
                if (message.service != null && $Object.hasOwnProperty.call(message, "service"))
                    $root.seamline.v1.Service.encode(message.service, writer.uint32(114).fork(), _depth + 1).ldelim();
                if (message.payload != null && $Object.hasOwnProperty.call(message, "payload"))
                    writer.uint32(122).bytes(message.payload);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            Frame.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.seamline.v1.Frame();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 2)
                                break;
                            message.hello = $root.seamline.v1.Hello.decode(reader, reader.size(), $undefined, _depth + 1, message.hello);
                            message.kind = "hello";
                            continue;
                        }
                    case 2: {
                            if (wireType !== 2)
                                break;
                            message.link = $root.seamline.v1.Link.decode(reader, reader.size(), $undefined, _depth + 1, message.link);
                            message.kind = "link";
                            continue;
                        }
                    case 3: {
                            if (wireType !== 2)
                                break;
                            message.open = $root.seamline.v1.Open.decode(reader, reader.size(), $undefined, _depth + 1, message.open);
                            message.kind = "open";
                            continue;
                        }
                    case 4: {
                            if (wireType !== 2)
                                break;
                            message.close = $root.seamline.v1.Close.decode(reader, reader.size(), $undefined, _depth + 1, message.close);
                            message.kind = "close";
                            continue;
                        }
                    case 5: {
                            if (wireType !== 2)
                                break;
                            message.cancel = $root.seamline.v1.Cancel.decode(reader, reader.size(), $undefined, _depth + 1, message.cancel);
                            message.kind = "cancel";
                            continue;
                        }
                    case 6: {
                            if (wireType !== 2)
                                break;
                            message.rollback = $root.seamline.v1.Rollback.decode(reader, reader.size(), $undefined, _depth + 1, message.rollback);
                            message.kind = "rollback";
                            continue;
                        }
                    case 7: {
                            if (wireType !== 2)
                                break;
                            message.ack = $root.seamline.v1.Ack.decode(reader, reader.size(), $undefined, _depth + 1, message.ack);
                            message.kind = "ack";
                            continue;
                        }
                    case 8: {
                            if (wireType !== 2)
                                break;
                            message.tensor = $root.seamline.v1.Tensor.decode(reader, reader.size(), $undefined, _depth + 1, message.tensor);
                            message.kind = "tensor";
                            continue;
                        }
                    case 9: {
                            if (wireType !== 2)
                                break;
                            message.token = $root.seamline.v1.Token.decode(reader, reader.size(), $undefined, _depth + 1, message.token);
                            message.kind = "token";
                            continue;
                        }
                    case 10: {
                            if (wireType !== 2)
                                break;
                            message.credit = $root.seamline.v1.Credit.decode(reader, reader.size(), $undefined, _depth + 1, message.credit);
                            message.kind = "credit";
                            continue;
                        }
                    case 11: {
                            if (wireType !== 2)
                                break;
                            message.heartbeat = $root.seamline.v1.Heartbeat.decode(reader, reader.size(), $undefined, _depth + 1, message.heartbeat);
                            message.kind = "heartbeat";
                            continue;
                        }
                    case 12: {
                            if (wireType !== 2)
                                break;
                            message.probe = $root.seamline.v1.Probe.decode(reader, reader.size(), $undefined, _depth + 1, message.probe);
                            message.kind = "probe";
                            continue;
                        }
                    case 13: {
                            if (wireType !== 2)
                                break;
                            message.error = $root.seamline.v1.Error.decode(reader, reader.size(), $undefined, _depth + 1, message.error);
                            message.kind = "error";
                            continue;
                        }
                    case 14: {
                            if (wireType !== 2)
                                break;
                            message.service = $root.seamline.v1.Service.decode(reader, reader.size(), $undefined, _depth + 1, message.service);
                            message.kind = "service";
                            continue;
                        }
                    case 15: {
                            if (wireType !== 2)
                                break;
                            message.payload = reader.bytes();
                            message._payload = "payload";
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return Frame;
        })();

        v1.Service = (function() {

            const Service = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            Service.prototype.traceControl = null;
            Service.prototype.traceFetch = null;
            Service.prototype.stateGet = null;
            Service.prototype.stateSet = null;

            let $oneOfFields;

            $Object.defineProperty(Service.prototype, "kind", {
                get: $util.oneOfGetter($oneOfFields = ["traceControl", "traceFetch", "stateGet", "stateSet"]),
                set: $util.oneOfSetter($oneOfFields)
            });

            Service.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.traceControl != null && $Object.hasOwnProperty.call(message, "traceControl"))
                    $root.seamline.v1.TraceControl.encode(message.traceControl, writer.uint32(10).fork(), _depth + 1).ldelim();
                if (message.traceFetch != null && $Object.hasOwnProperty.call(message, "traceFetch"))
                    $root.seamline.v1.TraceFetch.encode(message.traceFetch, writer.uint32(18).fork(), _depth + 1).ldelim();
                if (message.stateGet != null && $Object.hasOwnProperty.call(message, "stateGet"))
                    $root.seamline.v1.StateGet.encode(message.stateGet, writer.uint32(26).fork(), _depth + 1).ldelim();
                if (message.stateSet != null && $Object.hasOwnProperty.call(message, "stateSet"))
                    $root.seamline.v1.StateSet.encode(message.stateSet, writer.uint32(34).fork(), _depth + 1).ldelim();
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            Service.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.seamline.v1.Service();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 2)
                                break;
                            message.traceControl = $root.seamline.v1.TraceControl.decode(reader, reader.size(), $undefined, _depth + 1, message.traceControl);
                            message.kind = "traceControl";
                            continue;
                        }
                    case 2: {
                            if (wireType !== 2)
                                break;
                            message.traceFetch = $root.seamline.v1.TraceFetch.decode(reader, reader.size(), $undefined, _depth + 1, message.traceFetch);
                            message.kind = "traceFetch";
                            continue;
                        }
                    case 3: {
                            if (wireType !== 2)
                                break;
                            message.stateGet = $root.seamline.v1.StateGet.decode(reader, reader.size(), $undefined, _depth + 1, message.stateGet);
                            message.kind = "stateGet";
                            continue;
                        }
                    case 4: {
                            if (wireType !== 2)
                                break;
                            message.stateSet = $root.seamline.v1.StateSet.decode(reader, reader.size(), $undefined, _depth + 1, message.stateSet);
                            message.kind = "stateSet";
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return Service;
        })();

        v1.Role = (function() {
            const valuesById = $Object.create(null), values = $Object.create(valuesById);
            values[valuesById[0] = "ROLE_UNSPECIFIED"] = 0;
            values[valuesById[1] = "ROLE_COORDINATOR"] = 1;
            values[valuesById[2] = "ROLE_WORKER"] = 2;
            values[valuesById[3] = "ROLE_STAGE"] = 3;
            return values;
        })();

        v1.DType = (function() {
            const valuesById = $Object.create(null), values = $Object.create(valuesById);
            values[valuesById[0] = "DTYPE_UNSPECIFIED"] = 0;
            values[valuesById[1] = "DTYPE_F32"] = 1;
            values[valuesById[2] = "DTYPE_F16"] = 2;
            values[valuesById[3] = "DTYPE_BF16"] = 3;
            values[valuesById[4] = "DTYPE_Q8_0"] = 4;
            values[valuesById[5] = "DTYPE_I32"] = 5;
            return values;
        })();

        v1.Finish = (function() {
            const valuesById = $Object.create(null), values = $Object.create(valuesById);
            values[valuesById[0] = "FINISH_NONE"] = 0;
            values[valuesById[1] = "FINISH_STOP"] = 1;
            values[valuesById[2] = "FINISH_LENGTH"] = 2;
            return values;
        })();

        v1.Scope = (function() {
            const valuesById = $Object.create(null), values = $Object.create(valuesById);
            values[valuesById[0] = "SCOPE_UNSPECIFIED"] = 0;
            values[valuesById[1] = "SCOPE_SEQUENCE"] = 1;
            values[valuesById[2] = "SCOPE_EDGE"] = 2;
            return values;
        })();

        v1.Code = (function() {
            const valuesById = $Object.create(null), values = $Object.create(valuesById);
            values[valuesById[0] = "CODE_UNSPECIFIED"] = 0;
            values[valuesById[1] = "CODE_ABORTED"] = 1;
            values[valuesById[2] = "CODE_TIMEOUT"] = 2;
            values[valuesById[3] = "CODE_CLOSED"] = 3;
            values[valuesById[4] = "CODE_RESET"] = 4;
            values[valuesById[5] = "CODE_PROTOCOL"] = 5;
            values[valuesById[6] = "CODE_LIMIT"] = 6;
            values[valuesById[7] = "CODE_UNSUPPORTED"] = 7;
            values[valuesById[8] = "CODE_CODEC"] = 8;
            values[valuesById[9] = "CODE_EXECUTOR"] = 9;
            values[valuesById[10] = "CODE_MISMATCH"] = 10;
            values[valuesById[11] = "CODE_BUSY"] = 11;
            values[valuesById[12] = "CODE_WORKER"] = 12;
            values[valuesById[13] = "CODE_FILE"] = 13;
            values[valuesById[14] = "CODE_USAGE"] = 14;
            return values;
        })();

        v1.Hello = (function() {

            const Hello = function (properties) {
                this.codecs = [];
                this.framings = [];
                this.transports = [];
                this.addresses = [];
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            Hello.prototype.role = 0;
            Hello.prototype.name = "";
            Hello.prototype.run = "";
            Hello.prototype.facts = null;
            Hello.prototype.codecs = $util.emptyArray;
            Hello.prototype.framings = $util.emptyArray;
            Hello.prototype.transports = $util.emptyArray;
            Hello.prototype.addresses = $util.emptyArray;
            Hello.prototype.maxPayloadBytes = 0;
            Hello.prototype.rowsPerStep = 0;
            Hello.prototype.livenessMs = 0;

            Hello.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.role != null && $Object.hasOwnProperty.call(message, "role") && message.role !== 0)
                    writer.uint32(8).int32(message.role);
                if (message.name != null && $Object.hasOwnProperty.call(message, "name") && message.name !== "")
                    writer.uint32(18).string(message.name);
                if (message.run != null && $Object.hasOwnProperty.call(message, "run") && message.run !== "")
                    writer.uint32(26).string(message.run);
                if (message.facts != null && $Object.hasOwnProperty.call(message, "facts"))
                    $root.seamline.v1.Facts.encode(message.facts, writer.uint32(34).fork(), _depth + 1).ldelim();
                if (message.codecs != null && message.codecs.length)
                    for (let i = 0; i < message.codecs.length; ++i)
                        writer.uint32(42).string(message.codecs[i]);
                if (message.framings != null && message.framings.length)
                    for (let i = 0; i < message.framings.length; ++i)
                        writer.uint32(50).string(message.framings[i]);
                if (message.transports != null && message.transports.length)
                    for (let i = 0; i < message.transports.length; ++i)
                        writer.uint32(58).string(message.transports[i]);
                if (message.addresses != null && message.addresses.length)
                    for (let i = 0; i < message.addresses.length; ++i)
                        $root.seamline.v1.Address.encode(message.addresses[i], writer.uint32(66).fork(), _depth + 1).ldelim();
                if (message.maxPayloadBytes != null && $Object.hasOwnProperty.call(message, "maxPayloadBytes") && (typeof message.maxPayloadBytes === "object" ? message.maxPayloadBytes.low || message.maxPayloadBytes.high : message.maxPayloadBytes !== 0))
                    writer.uint32(72).uint64(message.maxPayloadBytes);
                if (message.rowsPerStep != null && $Object.hasOwnProperty.call(message, "rowsPerStep") && message.rowsPerStep !== 0)
                    writer.uint32(80).uint32(message.rowsPerStep);
                if (message.livenessMs != null && $Object.hasOwnProperty.call(message, "livenessMs") && message.livenessMs !== 0)
                    writer.uint32(88).uint32(message.livenessMs);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            Hello.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.seamline.v1.Hello();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.int32())
                                message.role = value;
                            else
                                delete message.role;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.name = value;
                            else
                                delete message.name;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.run = value;
                            else
                                delete message.run;
                            continue;
                        }
                    case 4: {
                            if (wireType !== 2)
                                break;
                            message.facts = $root.seamline.v1.Facts.decode(reader, reader.size(), $undefined, _depth + 1, message.facts);
                            continue;
                        }
                    case 5: {
                            if (wireType !== 2)
                                break;
                            if (!(message.codecs && message.codecs.length))
                                message.codecs = [];
                            message.codecs.push(reader.stringVerify());
                            continue;
                        }
                    case 6: {
                            if (wireType !== 2)
                                break;
                            if (!(message.framings && message.framings.length))
                                message.framings = [];
                            message.framings.push(reader.stringVerify());
                            continue;
                        }
                    case 7: {
                            if (wireType !== 2)
                                break;
                            if (!(message.transports && message.transports.length))
                                message.transports = [];
                            message.transports.push(reader.stringVerify());
                            continue;
                        }
                    case 8: {
                            if (wireType !== 2)
                                break;
                            if (!(message.addresses && message.addresses.length))
                                message.addresses = [];
                            message.addresses.push($root.seamline.v1.Address.decode(reader, reader.size(), $undefined, _depth + 1));
                            continue;
                        }
                    case 9: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.maxPayloadBytes = value;
                            else
                                delete message.maxPayloadBytes;
                            continue;
                        }
                    case 10: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.rowsPerStep = value;
                            else
                                delete message.rowsPerStep;
                            continue;
                        }
                    case 11: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.livenessMs = value;
                            else
                                delete message.livenessMs;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return Hello;
        })();

        v1.Address = (function() {

            const Address = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            Address.prototype.transport = "";
            Address.prototype.address = "";

            Address.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.transport != null && $Object.hasOwnProperty.call(message, "transport") && message.transport !== "")
                    writer.uint32(10).string(message.transport);
                if (message.address != null && $Object.hasOwnProperty.call(message, "address") && message.address !== "")
                    writer.uint32(18).string(message.address);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            Address.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.seamline.v1.Address();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.transport = value;
                            else
                                delete message.transport;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.address = value;
                            else
                                delete message.address;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return Address;
        })();

        v1.Facts = (function() {

            const Facts = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            Facts.prototype.modelSha256 = "";
            Facts.prototype.manifestSha256 = "";
            Facts.prototype.layerFirst = null;
            Facts.prototype.layerEnd = null;
            Facts.prototype.layerCount = null;
            Facts.prototype.embedding = null;
            Facts.prototype.vocabulary = null;
            Facts.prototype.contextLength = null;
            Facts.prototype.chunkTokens = null;
            Facts.prototype.maxSequences = null;
            Facts.prototype.kvType = "";
            Facts.prototype.flashAttention = "";
            Facts.prototype.regime = "";
            Facts.prototype.threads = null;
            Facts.prototype.engine = "";
            Facts.prototype.backend = "";

            let $oneOfFields;

            // Virtual OneOf for proto3 optional field
            $Object.defineProperty(Facts.prototype, "_layerFirst", {
                get: $util.oneOfGetter($oneOfFields = ["layerFirst"]),
                set: $util.oneOfSetter($oneOfFields)
            });

            // Virtual OneOf for proto3 optional field
            $Object.defineProperty(Facts.prototype, "_layerEnd", {
                get: $util.oneOfGetter($oneOfFields = ["layerEnd"]),
                set: $util.oneOfSetter($oneOfFields)
            });

            // Virtual OneOf for proto3 optional field
            $Object.defineProperty(Facts.prototype, "_layerCount", {
                get: $util.oneOfGetter($oneOfFields = ["layerCount"]),
                set: $util.oneOfSetter($oneOfFields)
            });

            // Virtual OneOf for proto3 optional field
            $Object.defineProperty(Facts.prototype, "_embedding", {
                get: $util.oneOfGetter($oneOfFields = ["embedding"]),
                set: $util.oneOfSetter($oneOfFields)
            });

            // Virtual OneOf for proto3 optional field
            $Object.defineProperty(Facts.prototype, "_vocabulary", {
                get: $util.oneOfGetter($oneOfFields = ["vocabulary"]),
                set: $util.oneOfSetter($oneOfFields)
            });

            // Virtual OneOf for proto3 optional field
            $Object.defineProperty(Facts.prototype, "_contextLength", {
                get: $util.oneOfGetter($oneOfFields = ["contextLength"]),
                set: $util.oneOfSetter($oneOfFields)
            });

            // Virtual OneOf for proto3 optional field
            $Object.defineProperty(Facts.prototype, "_chunkTokens", {
                get: $util.oneOfGetter($oneOfFields = ["chunkTokens"]),
                set: $util.oneOfSetter($oneOfFields)
            });

            // Virtual OneOf for proto3 optional field
            $Object.defineProperty(Facts.prototype, "_maxSequences", {
                get: $util.oneOfGetter($oneOfFields = ["maxSequences"]),
                set: $util.oneOfSetter($oneOfFields)
            });

            // Virtual OneOf for proto3 optional field
            $Object.defineProperty(Facts.prototype, "_threads", {
                get: $util.oneOfGetter($oneOfFields = ["threads"]),
                set: $util.oneOfSetter($oneOfFields)
            });

            Facts.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.modelSha256 != null && $Object.hasOwnProperty.call(message, "modelSha256") && message.modelSha256 !== "")
                    writer.uint32(10).string(message.modelSha256);
                if (message.manifestSha256 != null && $Object.hasOwnProperty.call(message, "manifestSha256") && message.manifestSha256 !== "")
                    writer.uint32(18).string(message.manifestSha256);
                if (message.layerFirst != null && $Object.hasOwnProperty.call(message, "layerFirst"))
                    writer.uint32(24).uint32(message.layerFirst);
                if (message.layerEnd != null && $Object.hasOwnProperty.call(message, "layerEnd"))
                    writer.uint32(32).uint32(message.layerEnd);
                if (message.layerCount != null && $Object.hasOwnProperty.call(message, "layerCount"))
                    writer.uint32(40).uint32(message.layerCount);
                if (message.embedding != null && $Object.hasOwnProperty.call(message, "embedding"))
                    writer.uint32(48).uint32(message.embedding);
                if (message.vocabulary != null && $Object.hasOwnProperty.call(message, "vocabulary"))
                    writer.uint32(56).uint32(message.vocabulary);
                if (message.contextLength != null && $Object.hasOwnProperty.call(message, "contextLength"))
                    writer.uint32(64).uint32(message.contextLength);
                if (message.chunkTokens != null && $Object.hasOwnProperty.call(message, "chunkTokens"))
                    writer.uint32(72).uint32(message.chunkTokens);
                if (message.maxSequences != null && $Object.hasOwnProperty.call(message, "maxSequences"))
                    writer.uint32(80).uint32(message.maxSequences);
                if (message.kvType != null && $Object.hasOwnProperty.call(message, "kvType") && message.kvType !== "")
                    writer.uint32(90).string(message.kvType);
                if (message.flashAttention != null && $Object.hasOwnProperty.call(message, "flashAttention") && message.flashAttention !== "")
                    writer.uint32(98).string(message.flashAttention);
                if (message.regime != null && $Object.hasOwnProperty.call(message, "regime") && message.regime !== "")
                    writer.uint32(106).string(message.regime);
                if (message.threads != null && $Object.hasOwnProperty.call(message, "threads"))
                    writer.uint32(112).uint32(message.threads);
                if (message.engine != null && $Object.hasOwnProperty.call(message, "engine") && message.engine !== "")
                    writer.uint32(122).string(message.engine);
                if (message.backend != null && $Object.hasOwnProperty.call(message, "backend") && message.backend !== "")
                    writer.uint32(130).string(message.backend);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            Facts.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.seamline.v1.Facts();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.modelSha256 = value;
                            else
                                delete message.modelSha256;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.manifestSha256 = value;
                            else
                                delete message.manifestSha256;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 0)
                                break;
                            message.layerFirst = reader.uint32();
                            message._layerFirst = "layerFirst";
                            continue;
                        }
                    case 4: {
                            if (wireType !== 0)
                                break;
                            message.layerEnd = reader.uint32();
                            message._layerEnd = "layerEnd";
                            continue;
                        }
                    case 5: {
                            if (wireType !== 0)
                                break;
                            message.layerCount = reader.uint32();
                            message._layerCount = "layerCount";
                            continue;
                        }
                    case 6: {
                            if (wireType !== 0)
                                break;
                            message.embedding = reader.uint32();
                            message._embedding = "embedding";
                            continue;
                        }
                    case 7: {
                            if (wireType !== 0)
                                break;
                            message.vocabulary = reader.uint32();
                            message._vocabulary = "vocabulary";
                            continue;
                        }
                    case 8: {
                            if (wireType !== 0)
                                break;
                            message.contextLength = reader.uint32();
                            message._contextLength = "contextLength";
                            continue;
                        }
                    case 9: {
                            if (wireType !== 0)
                                break;
                            message.chunkTokens = reader.uint32();
                            message._chunkTokens = "chunkTokens";
                            continue;
                        }
                    case 10: {
                            if (wireType !== 0)
                                break;
                            message.maxSequences = reader.uint32();
                            message._maxSequences = "maxSequences";
                            continue;
                        }
                    case 11: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.kvType = value;
                            else
                                delete message.kvType;
                            continue;
                        }
                    case 12: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.flashAttention = value;
                            else
                                delete message.flashAttention;
                            continue;
                        }
                    case 13: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.regime = value;
                            else
                                delete message.regime;
                            continue;
                        }
                    case 14: {
                            if (wireType !== 0)
                                break;
                            message.threads = reader.uint32();
                            message._threads = "threads";
                            continue;
                        }
                    case 15: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.engine = value;
                            else
                                delete message.engine;
                            continue;
                        }
                    case 16: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.backend = value;
                            else
                                delete message.backend;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return Facts;
        })();

        v1.Link = (function() {

            const Link = function (properties) {
                this.addresses = [];
                this.codecs = [];
                this.framings = [];
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            Link.prototype.request = 0;
            Link.prototype.reply = false;
            Link.prototype.edge = 0;
            Link.prototype.addresses = $util.emptyArray;
            Link.prototype.codecs = $util.emptyArray;
            Link.prototype.framings = $util.emptyArray;

            Link.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.request != null && $Object.hasOwnProperty.call(message, "request") && message.request !== 0)
                    writer.uint32(8).uint32(message.request);
                if (message.reply != null && $Object.hasOwnProperty.call(message, "reply") && message.reply !== false)
                    writer.uint32(16).bool(message.reply);
                if (message.edge != null && $Object.hasOwnProperty.call(message, "edge") && message.edge !== 0)
                    writer.uint32(24).uint32(message.edge);
                if (message.addresses != null && message.addresses.length)
                    for (let i = 0; i < message.addresses.length; ++i)
                        $root.seamline.v1.Address.encode(message.addresses[i], writer.uint32(34).fork(), _depth + 1).ldelim();
                if (message.codecs != null && message.codecs.length)
                    for (let i = 0; i < message.codecs.length; ++i)
                        writer.uint32(42).string(message.codecs[i]);
                if (message.framings != null && message.framings.length)
                    for (let i = 0; i < message.framings.length; ++i)
                        writer.uint32(50).string(message.framings[i]);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            Link.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.seamline.v1.Link();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.request = value;
                            else
                                delete message.request;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.bool())
                                message.reply = value;
                            else
                                delete message.reply;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.edge = value;
                            else
                                delete message.edge;
                            continue;
                        }
                    case 4: {
                            if (wireType !== 2)
                                break;
                            if (!(message.addresses && message.addresses.length))
                                message.addresses = [];
                            message.addresses.push($root.seamline.v1.Address.decode(reader, reader.size(), $undefined, _depth + 1));
                            continue;
                        }
                    case 5: {
                            if (wireType !== 2)
                                break;
                            if (!(message.codecs && message.codecs.length))
                                message.codecs = [];
                            message.codecs.push(reader.stringVerify());
                            continue;
                        }
                    case 6: {
                            if (wireType !== 2)
                                break;
                            if (!(message.framings && message.framings.length))
                                message.framings = [];
                            message.framings.push(reader.stringVerify());
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return Link;
        })();

        v1.Open = (function() {

            const Open = function (properties) {
                this.stopTokens = [];
                this.promptTail = [];
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            Open.prototype.request = 0;
            Open.prototype.sequence = 0;
            Open.prototype.promptTokens = 0;
            Open.prototype.maxTokens = 0;
            Open.prototype.sampler = null;
            Open.prototype.stopTokens = $util.emptyArray;
            Open.prototype.promptTail = $util.emptyArray;
            Open.prototype.returnLogits = false;

            Open.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.request != null && $Object.hasOwnProperty.call(message, "request") && message.request !== 0)
                    writer.uint32(8).uint32(message.request);
                if (message.sequence != null && $Object.hasOwnProperty.call(message, "sequence") && message.sequence !== 0)
                    writer.uint32(16).uint32(message.sequence);
                if (message.promptTokens != null && $Object.hasOwnProperty.call(message, "promptTokens") && message.promptTokens !== 0)
                    writer.uint32(24).uint32(message.promptTokens);
                if (message.maxTokens != null && $Object.hasOwnProperty.call(message, "maxTokens") && message.maxTokens !== 0)
                    writer.uint32(32).uint32(message.maxTokens);
                if (message.sampler != null && $Object.hasOwnProperty.call(message, "sampler"))
                    $root.seamline.v1.Sampler.encode(message.sampler, writer.uint32(42).fork(), _depth + 1).ldelim();
                if (message.stopTokens != null && message.stopTokens.length)
                    writer.uint32(50).uint32s(message.stopTokens);
                if (message.promptTail != null && message.promptTail.length)
                    writer.uint32(58).uint32s(message.promptTail);
                if (message.returnLogits != null && $Object.hasOwnProperty.call(message, "returnLogits") && message.returnLogits !== false)
                    writer.uint32(64).bool(message.returnLogits);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            Open.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.seamline.v1.Open();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.request = value;
                            else
                                delete message.request;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.sequence = value;
                            else
                                delete message.sequence;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.promptTokens = value;
                            else
                                delete message.promptTokens;
                            continue;
                        }
                    case 4: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.maxTokens = value;
                            else
                                delete message.maxTokens;
                            continue;
                        }
                    case 5: {
                            if (wireType !== 2)
                                break;
                            message.sampler = $root.seamline.v1.Sampler.decode(reader, reader.size(), $undefined, _depth + 1, message.sampler);
                            continue;
                        }
                    case 6: {
                            if (wireType === 2) {
                                if (!(message.stopTokens && message.stopTokens.length))
                                    message.stopTokens = [];
                                reader.uint32s(message.stopTokens);
                                continue;
                            }
                            if (wireType !== 0)
                                break;
                            if (!(message.stopTokens && message.stopTokens.length))
                                message.stopTokens = [];
                            message.stopTokens.push(reader.uint32());
                            continue;
                        }
                    case 7: {
                            if (wireType === 2) {
                                if (!(message.promptTail && message.promptTail.length))
                                    message.promptTail = [];
                                reader.uint32s(message.promptTail);
                                continue;
                            }
                            if (wireType !== 0)
                                break;
                            if (!(message.promptTail && message.promptTail.length))
                                message.promptTail = [];
                            message.promptTail.push(reader.uint32());
                            continue;
                        }
                    case 8: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.bool())
                                message.returnLogits = value;
                            else
                                delete message.returnLogits;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return Open;
        })();

        v1.Sampler = (function() {

            const Sampler = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            Sampler.prototype.temperature = 0;
            Sampler.prototype.topK = 0;
            Sampler.prototype.topP = null;
            Sampler.prototype.minP = 0;
            Sampler.prototype.penaltyLastN = 0;
            Sampler.prototype.repeatPenalty = null;
            Sampler.prototype.frequencyPenalty = 0;
            Sampler.prototype.presencePenalty = 0;
            Sampler.prototype.seed = 0;

            let $oneOfFields;

            // Virtual OneOf for proto3 optional field
            $Object.defineProperty(Sampler.prototype, "_topP", {
                get: $util.oneOfGetter($oneOfFields = ["topP"]),
                set: $util.oneOfSetter($oneOfFields)
            });

            // Virtual OneOf for proto3 optional field
            $Object.defineProperty(Sampler.prototype, "_repeatPenalty", {
                get: $util.oneOfGetter($oneOfFields = ["repeatPenalty"]),
                set: $util.oneOfSetter($oneOfFields)
            });

            Sampler.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.temperature != null && $Object.hasOwnProperty.call(message, "temperature") && !$Object.is(message.temperature, 0))
                    writer.uint32(9).double(message.temperature);
                if (message.topK != null && $Object.hasOwnProperty.call(message, "topK") && message.topK !== 0)
                    writer.uint32(16).uint32(message.topK);
                if (message.topP != null && $Object.hasOwnProperty.call(message, "topP"))
                    writer.uint32(25).double(message.topP);
                if (message.minP != null && $Object.hasOwnProperty.call(message, "minP") && !$Object.is(message.minP, 0))
                    writer.uint32(33).double(message.minP);
                if (message.penaltyLastN != null && $Object.hasOwnProperty.call(message, "penaltyLastN") && message.penaltyLastN !== 0)
                    writer.uint32(40).uint32(message.penaltyLastN);
                if (message.repeatPenalty != null && $Object.hasOwnProperty.call(message, "repeatPenalty"))
                    writer.uint32(49).double(message.repeatPenalty);
                if (message.frequencyPenalty != null && $Object.hasOwnProperty.call(message, "frequencyPenalty") && !$Object.is(message.frequencyPenalty, 0))
                    writer.uint32(57).double(message.frequencyPenalty);
                if (message.presencePenalty != null && $Object.hasOwnProperty.call(message, "presencePenalty") && !$Object.is(message.presencePenalty, 0))
                    writer.uint32(65).double(message.presencePenalty);
                if (message.seed != null && $Object.hasOwnProperty.call(message, "seed") && message.seed !== 0)
                    writer.uint32(72).uint32(message.seed);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            Sampler.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.seamline.v1.Sampler();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 1)
                                break;
                            if (!$Object.is(value = reader.double(), 0))
                                message.temperature = value;
                            else
                                delete message.temperature;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.topK = value;
                            else
                                delete message.topK;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 1)
                                break;
                            message.topP = reader.double();
                            message._topP = "topP";
                            continue;
                        }
                    case 4: {
                            if (wireType !== 1)
                                break;
                            if (!$Object.is(value = reader.double(), 0))
                                message.minP = value;
                            else
                                delete message.minP;
                            continue;
                        }
                    case 5: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.penaltyLastN = value;
                            else
                                delete message.penaltyLastN;
                            continue;
                        }
                    case 6: {
                            if (wireType !== 1)
                                break;
                            message.repeatPenalty = reader.double();
                            message._repeatPenalty = "repeatPenalty";
                            continue;
                        }
                    case 7: {
                            if (wireType !== 1)
                                break;
                            if (!$Object.is(value = reader.double(), 0))
                                message.frequencyPenalty = value;
                            else
                                delete message.frequencyPenalty;
                            continue;
                        }
                    case 8: {
                            if (wireType !== 1)
                                break;
                            if (!$Object.is(value = reader.double(), 0))
                                message.presencePenalty = value;
                            else
                                delete message.presencePenalty;
                            continue;
                        }
                    case 9: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.seed = value;
                            else
                                delete message.seed;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return Sampler;
        })();

        v1.Close = (function() {

            const Close = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            Close.prototype.request = 0;
            Close.prototype.sequence = 0;

            Close.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.request != null && $Object.hasOwnProperty.call(message, "request") && message.request !== 0)
                    writer.uint32(8).uint32(message.request);
                if (message.sequence != null && $Object.hasOwnProperty.call(message, "sequence") && message.sequence !== 0)
                    writer.uint32(16).uint32(message.sequence);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            Close.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.seamline.v1.Close();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.request = value;
                            else
                                delete message.request;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.sequence = value;
                            else
                                delete message.sequence;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return Close;
        })();

        v1.Cancel = (function() {

            const Cancel = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            Cancel.prototype.request = 0;
            Cancel.prototype.sequence = 0;

            Cancel.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.request != null && $Object.hasOwnProperty.call(message, "request") && message.request !== 0)
                    writer.uint32(8).uint32(message.request);
                if (message.sequence != null && $Object.hasOwnProperty.call(message, "sequence") && message.sequence !== 0)
                    writer.uint32(16).uint32(message.sequence);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            Cancel.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.seamline.v1.Cancel();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.request = value;
                            else
                                delete message.request;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.sequence = value;
                            else
                                delete message.sequence;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return Cancel;
        })();

        v1.Rollback = (function() {

            const Rollback = function (properties) {
                this.tail = [];
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            Rollback.prototype.request = 0;
            Rollback.prototype.sequence = 0;
            Rollback.prototype.position = 0;
            Rollback.prototype.epoch = 0;
            Rollback.prototype.tail = $util.emptyArray;

            Rollback.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.request != null && $Object.hasOwnProperty.call(message, "request") && message.request !== 0)
                    writer.uint32(8).uint32(message.request);
                if (message.sequence != null && $Object.hasOwnProperty.call(message, "sequence") && message.sequence !== 0)
                    writer.uint32(16).uint32(message.sequence);
                if (message.position != null && $Object.hasOwnProperty.call(message, "position") && message.position !== 0)
                    writer.uint32(24).uint32(message.position);
                if (message.epoch != null && $Object.hasOwnProperty.call(message, "epoch") && message.epoch !== 0)
                    writer.uint32(32).uint32(message.epoch);
                if (message.tail != null && message.tail.length)
                    writer.uint32(42).uint32s(message.tail);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            Rollback.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.seamline.v1.Rollback();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.request = value;
                            else
                                delete message.request;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.sequence = value;
                            else
                                delete message.sequence;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.position = value;
                            else
                                delete message.position;
                            continue;
                        }
                    case 4: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.epoch = value;
                            else
                                delete message.epoch;
                            continue;
                        }
                    case 5: {
                            if (wireType === 2) {
                                if (!(message.tail && message.tail.length))
                                    message.tail = [];
                                reader.uint32s(message.tail);
                                continue;
                            }
                            if (wireType !== 0)
                                break;
                            if (!(message.tail && message.tail.length))
                                message.tail = [];
                            message.tail.push(reader.uint32());
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return Rollback;
        })();

        v1.Ack = (function() {

            const Ack = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            Ack.prototype.request = 0;

            Ack.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.request != null && $Object.hasOwnProperty.call(message, "request") && message.request !== 0)
                    writer.uint32(8).uint32(message.request);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            Ack.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.seamline.v1.Ack();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.request = value;
                            else
                                delete message.request;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return Ack;
        })();

        v1.Tensor = (function() {

            const Tensor = function (properties) {
                this.rows = [];
                this.shape = [];
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            Tensor.prototype.run = 0;
            Tensor.prototype.step = 0;
            Tensor.prototype.edge = 0;
            Tensor.prototype.fragment = 0;
            Tensor.prototype.rows = $util.emptyArray;
            Tensor.prototype.shape = $util.emptyArray;
            Tensor.prototype.dtype = 0;
            Tensor.prototype.codec = "";
            Tensor.prototype.sentNs = 0;
            Tensor.prototype.checksum = null;

            let $oneOfFields;

            // Virtual OneOf for proto3 optional field
            $Object.defineProperty(Tensor.prototype, "_checksum", {
                get: $util.oneOfGetter($oneOfFields = ["checksum"]),
                set: $util.oneOfSetter($oneOfFields)
            });

            Tensor.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.run != null && $Object.hasOwnProperty.call(message, "run") && (typeof message.run === "object" ? message.run.low || message.run.high : message.run !== 0))
                    writer.uint32(9).fixed64(message.run);
                if (message.step != null && $Object.hasOwnProperty.call(message, "step") && (typeof message.step === "object" ? message.step.low || message.step.high : message.step !== 0))
                    writer.uint32(16).uint64(message.step);
                if (message.edge != null && $Object.hasOwnProperty.call(message, "edge") && message.edge !== 0)
                    writer.uint32(24).uint32(message.edge);
                if (message.fragment != null && $Object.hasOwnProperty.call(message, "fragment") && message.fragment !== 0)
                    writer.uint32(32).uint32(message.fragment);
                if (message.rows != null && message.rows.length)
                    for (let i = 0; i < message.rows.length; ++i)
                        $root.seamline.v1.Row.encode(message.rows[i], writer.uint32(42).fork(), _depth + 1).ldelim();
                if (message.shape != null && message.shape.length)
                    writer.uint32(50).uint32s(message.shape);
                if (message.dtype != null && $Object.hasOwnProperty.call(message, "dtype") && message.dtype !== 0)
                    writer.uint32(56).int32(message.dtype);
                if (message.codec != null && $Object.hasOwnProperty.call(message, "codec") && message.codec !== "")
                    writer.uint32(66).string(message.codec);
                if (message.sentNs != null && $Object.hasOwnProperty.call(message, "sentNs") && (typeof message.sentNs === "object" ? message.sentNs.low || message.sentNs.high : message.sentNs !== 0))
                    writer.uint32(72).uint64(message.sentNs);
                if (message.checksum != null && $Object.hasOwnProperty.call(message, "checksum"))
                    writer.uint32(85).fixed32(message.checksum);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            Tensor.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.seamline.v1.Tensor();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 1)
                                break;
                            if (typeof (value = reader.fixed64()) === "object" ? value.low || value.high : value !== 0)
                                message.run = value;
                            else
                                delete message.run;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.step = value;
                            else
                                delete message.step;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.edge = value;
                            else
                                delete message.edge;
                            continue;
                        }
                    case 4: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.fragment = value;
                            else
                                delete message.fragment;
                            continue;
                        }
                    case 5: {
                            if (wireType !== 2)
                                break;
                            if (!(message.rows && message.rows.length))
                                message.rows = [];
                            message.rows.push($root.seamline.v1.Row.decode(reader, reader.size(), $undefined, _depth + 1));
                            continue;
                        }
                    case 6: {
                            if (wireType === 2) {
                                if (!(message.shape && message.shape.length))
                                    message.shape = [];
                                reader.uint32s(message.shape);
                                continue;
                            }
                            if (wireType !== 0)
                                break;
                            if (!(message.shape && message.shape.length))
                                message.shape = [];
                            message.shape.push(reader.uint32());
                            continue;
                        }
                    case 7: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.int32())
                                message.dtype = value;
                            else
                                delete message.dtype;
                            continue;
                        }
                    case 8: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.codec = value;
                            else
                                delete message.codec;
                            continue;
                        }
                    case 9: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.sentNs = value;
                            else
                                delete message.sentNs;
                            continue;
                        }
                    case 10: {
                            if (wireType !== 5)
                                break;
                            message.checksum = reader.fixed32();
                            message._checksum = "checksum";
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return Tensor;
        })();

        v1.Row = (function() {

            const Row = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            Row.prototype.sequence = 0;
            Row.prototype.epoch = 0;
            Row.prototype.position = 0;
            Row.prototype.tokenCount = 0;
            Row.prototype.sample = false;

            Row.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.sequence != null && $Object.hasOwnProperty.call(message, "sequence") && message.sequence !== 0)
                    writer.uint32(8).uint32(message.sequence);
                if (message.epoch != null && $Object.hasOwnProperty.call(message, "epoch") && message.epoch !== 0)
                    writer.uint32(16).uint32(message.epoch);
                if (message.position != null && $Object.hasOwnProperty.call(message, "position") && message.position !== 0)
                    writer.uint32(24).uint32(message.position);
                if (message.tokenCount != null && $Object.hasOwnProperty.call(message, "tokenCount") && message.tokenCount !== 0)
                    writer.uint32(32).uint32(message.tokenCount);
                if (message.sample != null && $Object.hasOwnProperty.call(message, "sample") && message.sample !== false)
                    writer.uint32(40).bool(message.sample);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            Row.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.seamline.v1.Row();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.sequence = value;
                            else
                                delete message.sequence;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.epoch = value;
                            else
                                delete message.epoch;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.position = value;
                            else
                                delete message.position;
                            continue;
                        }
                    case 4: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.tokenCount = value;
                            else
                                delete message.tokenCount;
                            continue;
                        }
                    case 5: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.bool())
                                message.sample = value;
                            else
                                delete message.sample;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return Row;
        })();

        v1.Token = (function() {

            const Token = function (properties) {
                this.tokens = [];
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            Token.prototype.tokens = $util.emptyArray;
            Token.prototype.step = 0;
            Token.prototype.sentNs = 0;
            Token.prototype.checksum = null;

            let $oneOfFields;

            // Virtual OneOf for proto3 optional field
            $Object.defineProperty(Token.prototype, "_checksum", {
                get: $util.oneOfGetter($oneOfFields = ["checksum"]),
                set: $util.oneOfSetter($oneOfFields)
            });

            Token.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.tokens != null && message.tokens.length)
                    for (let i = 0; i < message.tokens.length; ++i)
                        $root.seamline.v1.Sampled.encode(message.tokens[i], writer.uint32(10).fork(), _depth + 1).ldelim();
                if (message.step != null && $Object.hasOwnProperty.call(message, "step") && (typeof message.step === "object" ? message.step.low || message.step.high : message.step !== 0))
                    writer.uint32(16).uint64(message.step);
                if (message.sentNs != null && $Object.hasOwnProperty.call(message, "sentNs") && (typeof message.sentNs === "object" ? message.sentNs.low || message.sentNs.high : message.sentNs !== 0))
                    writer.uint32(24).uint64(message.sentNs);
                if (message.checksum != null && $Object.hasOwnProperty.call(message, "checksum"))
                    writer.uint32(37).fixed32(message.checksum);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            Token.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.seamline.v1.Token();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 2)
                                break;
                            if (!(message.tokens && message.tokens.length))
                                message.tokens = [];
                            message.tokens.push($root.seamline.v1.Sampled.decode(reader, reader.size(), $undefined, _depth + 1));
                            continue;
                        }
                    case 2: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.step = value;
                            else
                                delete message.step;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.sentNs = value;
                            else
                                delete message.sentNs;
                            continue;
                        }
                    case 4: {
                            if (wireType !== 5)
                                break;
                            message.checksum = reader.fixed32();
                            message._checksum = "checksum";
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return Token;
        })();

        v1.Sampled = (function() {

            const Sampled = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            Sampled.prototype.sequence = 0;
            Sampled.prototype.epoch = 0;
            Sampled.prototype.position = 0;
            Sampled.prototype.token = 0;
            Sampled.prototype.finish = 0;

            Sampled.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.sequence != null && $Object.hasOwnProperty.call(message, "sequence") && message.sequence !== 0)
                    writer.uint32(8).uint32(message.sequence);
                if (message.epoch != null && $Object.hasOwnProperty.call(message, "epoch") && message.epoch !== 0)
                    writer.uint32(16).uint32(message.epoch);
                if (message.position != null && $Object.hasOwnProperty.call(message, "position") && message.position !== 0)
                    writer.uint32(24).uint32(message.position);
                if (message.token != null && $Object.hasOwnProperty.call(message, "token") && message.token !== 0)
                    writer.uint32(32).uint32(message.token);
                if (message.finish != null && $Object.hasOwnProperty.call(message, "finish") && message.finish !== 0)
                    writer.uint32(40).int32(message.finish);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            Sampled.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.seamline.v1.Sampled();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.sequence = value;
                            else
                                delete message.sequence;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.epoch = value;
                            else
                                delete message.epoch;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.position = value;
                            else
                                delete message.position;
                            continue;
                        }
                    case 4: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.token = value;
                            else
                                delete message.token;
                            continue;
                        }
                    case 5: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.int32())
                                message.finish = value;
                            else
                                delete message.finish;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return Sampled;
        })();

        v1.Credit = (function() {

            const Credit = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            Credit.prototype.scope = 0;
            Credit.prototype.id = 0;
            Credit.prototype.limit = 0;

            Credit.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.scope != null && $Object.hasOwnProperty.call(message, "scope") && message.scope !== 0)
                    writer.uint32(8).int32(message.scope);
                if (message.id != null && $Object.hasOwnProperty.call(message, "id") && message.id !== 0)
                    writer.uint32(16).uint32(message.id);
                if (message.limit != null && $Object.hasOwnProperty.call(message, "limit") && (typeof message.limit === "object" ? message.limit.low || message.limit.high : message.limit !== 0))
                    writer.uint32(24).uint64(message.limit);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            Credit.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.seamline.v1.Credit();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.int32())
                                message.scope = value;
                            else
                                delete message.scope;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.id = value;
                            else
                                delete message.id;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.limit = value;
                            else
                                delete message.limit;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return Credit;
        })();

        v1.Heartbeat = (function() {

            const Heartbeat = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            Heartbeat.prototype.sentNs = 0;
            Heartbeat.prototype.sentSteps = 0;
            Heartbeat.prototype.completedSteps = 0;
            Heartbeat.prototype.busyNs = 0;

            Heartbeat.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.sentNs != null && $Object.hasOwnProperty.call(message, "sentNs") && (typeof message.sentNs === "object" ? message.sentNs.low || message.sentNs.high : message.sentNs !== 0))
                    writer.uint32(8).uint64(message.sentNs);
                if (message.sentSteps != null && $Object.hasOwnProperty.call(message, "sentSteps") && (typeof message.sentSteps === "object" ? message.sentSteps.low || message.sentSteps.high : message.sentSteps !== 0))
                    writer.uint32(16).uint64(message.sentSteps);
                if (message.completedSteps != null && $Object.hasOwnProperty.call(message, "completedSteps") && (typeof message.completedSteps === "object" ? message.completedSteps.low || message.completedSteps.high : message.completedSteps !== 0))
                    writer.uint32(24).uint64(message.completedSteps);
                if (message.busyNs != null && $Object.hasOwnProperty.call(message, "busyNs") && (typeof message.busyNs === "object" ? message.busyNs.low || message.busyNs.high : message.busyNs !== 0))
                    writer.uint32(32).uint64(message.busyNs);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            Heartbeat.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.seamline.v1.Heartbeat();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.sentNs = value;
                            else
                                delete message.sentNs;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.sentSteps = value;
                            else
                                delete message.sentSteps;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.completedSteps = value;
                            else
                                delete message.completedSteps;
                            continue;
                        }
                    case 4: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.busyNs = value;
                            else
                                delete message.busyNs;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return Heartbeat;
        })();

        v1.Probe = (function() {

            const Probe = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            Probe.prototype.id = 0;
            Probe.prototype.reply = false;
            Probe.prototype.t1Ns = 0;
            Probe.prototype.t2Ns = 0;
            Probe.prototype.t3Ns = 0;

            Probe.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.id != null && $Object.hasOwnProperty.call(message, "id") && message.id !== 0)
                    writer.uint32(8).uint32(message.id);
                if (message.reply != null && $Object.hasOwnProperty.call(message, "reply") && message.reply !== false)
                    writer.uint32(16).bool(message.reply);
                if (message.t1Ns != null && $Object.hasOwnProperty.call(message, "t1Ns") && (typeof message.t1Ns === "object" ? message.t1Ns.low || message.t1Ns.high : message.t1Ns !== 0))
                    writer.uint32(24).uint64(message.t1Ns);
                if (message.t2Ns != null && $Object.hasOwnProperty.call(message, "t2Ns") && (typeof message.t2Ns === "object" ? message.t2Ns.low || message.t2Ns.high : message.t2Ns !== 0))
                    writer.uint32(32).uint64(message.t2Ns);
                if (message.t3Ns != null && $Object.hasOwnProperty.call(message, "t3Ns") && (typeof message.t3Ns === "object" ? message.t3Ns.low || message.t3Ns.high : message.t3Ns !== 0))
                    writer.uint32(40).uint64(message.t3Ns);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            Probe.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.seamline.v1.Probe();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.id = value;
                            else
                                delete message.id;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.bool())
                                message.reply = value;
                            else
                                delete message.reply;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.t1Ns = value;
                            else
                                delete message.t1Ns;
                            continue;
                        }
                    case 4: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.t2Ns = value;
                            else
                                delete message.t2Ns;
                            continue;
                        }
                    case 5: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.t3Ns = value;
                            else
                                delete message.t3Ns;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return Probe;
        })();

        v1.Error = (function() {

            const Error = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            Error.prototype.code = 0;
            Error.prototype.message = "";
            Error.prototype.worker = "";
            Error.prototype.request = 0;
            Error.prototype.sequence = null;

            let $oneOfFields;

            // Virtual OneOf for proto3 optional field
            $Object.defineProperty(Error.prototype, "_sequence", {
                get: $util.oneOfGetter($oneOfFields = ["sequence"]),
                set: $util.oneOfSetter($oneOfFields)
            });

            Error.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.code != null && $Object.hasOwnProperty.call(message, "code") && message.code !== 0)
                    writer.uint32(8).int32(message.code);
                if (message.message != null && $Object.hasOwnProperty.call(message, "message") && message.message !== "")
                    writer.uint32(18).string(message.message);
                if (message.worker != null && $Object.hasOwnProperty.call(message, "worker") && message.worker !== "")
                    writer.uint32(26).string(message.worker);
                if (message.request != null && $Object.hasOwnProperty.call(message, "request") && message.request !== 0)
                    writer.uint32(32).uint32(message.request);
                if (message.sequence != null && $Object.hasOwnProperty.call(message, "sequence"))
                    writer.uint32(40).uint32(message.sequence);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            Error.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.seamline.v1.Error();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.int32())
                                message.code = value;
                            else
                                delete message.code;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.message = value;
                            else
                                delete message.message;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 2)
                                break;
                            if ((value = reader.stringVerify()).length)
                                message.worker = value;
                            else
                                delete message.worker;
                            continue;
                        }
                    case 4: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.request = value;
                            else
                                delete message.request;
                            continue;
                        }
                    case 5: {
                            if (wireType !== 0)
                                break;
                            message.sequence = reader.uint32();
                            message._sequence = "sequence";
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return Error;
        })();

        v1.TraceControl = (function() {

            const TraceControl = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            TraceControl.prototype.request = 0;
            TraceControl.prototype.level = 0;

            TraceControl.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.request != null && $Object.hasOwnProperty.call(message, "request") && message.request !== 0)
                    writer.uint32(8).uint32(message.request);
                if (message.level != null && $Object.hasOwnProperty.call(message, "level") && message.level !== 0)
                    writer.uint32(16).uint32(message.level);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            TraceControl.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.seamline.v1.TraceControl();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.request = value;
                            else
                                delete message.request;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.level = value;
                            else
                                delete message.level;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return TraceControl;
        })();

        v1.TraceFetch = (function() {

            const TraceFetch = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            TraceFetch.prototype.request = 0;
            TraceFetch.prototype.reply = false;
            TraceFetch.prototype.dropped = 0;
            TraceFetch.prototype.rssBytes = 0;

            TraceFetch.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.request != null && $Object.hasOwnProperty.call(message, "request") && message.request !== 0)
                    writer.uint32(8).uint32(message.request);
                if (message.reply != null && $Object.hasOwnProperty.call(message, "reply") && message.reply !== false)
                    writer.uint32(16).bool(message.reply);
                if (message.dropped != null && $Object.hasOwnProperty.call(message, "dropped") && (typeof message.dropped === "object" ? message.dropped.low || message.dropped.high : message.dropped !== 0))
                    writer.uint32(24).uint64(message.dropped);
                if (message.rssBytes != null && $Object.hasOwnProperty.call(message, "rssBytes") && (typeof message.rssBytes === "object" ? message.rssBytes.low || message.rssBytes.high : message.rssBytes !== 0))
                    writer.uint32(32).uint64(message.rssBytes);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            TraceFetch.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.seamline.v1.TraceFetch();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.request = value;
                            else
                                delete message.request;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.bool())
                                message.reply = value;
                            else
                                delete message.reply;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.dropped = value;
                            else
                                delete message.dropped;
                            continue;
                        }
                    case 4: {
                            if (wireType !== 0)
                                break;
                            if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                message.rssBytes = value;
                            else
                                delete message.rssBytes;
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return TraceFetch;
        })();

        v1.StateGet = (function() {

            const StateGet = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            StateGet.prototype.request = 0;
            StateGet.prototype.sequence = 0;
            StateGet.prototype.reply = false;
            StateGet.prototype.checksum = null;

            let $oneOfFields;

            // Virtual OneOf for proto3 optional field
            $Object.defineProperty(StateGet.prototype, "_checksum", {
                get: $util.oneOfGetter($oneOfFields = ["checksum"]),
                set: $util.oneOfSetter($oneOfFields)
            });

            StateGet.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.request != null && $Object.hasOwnProperty.call(message, "request") && message.request !== 0)
                    writer.uint32(8).uint32(message.request);
                if (message.sequence != null && $Object.hasOwnProperty.call(message, "sequence") && message.sequence !== 0)
                    writer.uint32(16).uint32(message.sequence);
                if (message.reply != null && $Object.hasOwnProperty.call(message, "reply") && message.reply !== false)
                    writer.uint32(24).bool(message.reply);
                if (message.checksum != null && $Object.hasOwnProperty.call(message, "checksum"))
                    writer.uint32(37).fixed32(message.checksum);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            StateGet.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.seamline.v1.StateGet();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.request = value;
                            else
                                delete message.request;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.sequence = value;
                            else
                                delete message.sequence;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.bool())
                                message.reply = value;
                            else
                                delete message.reply;
                            continue;
                        }
                    case 4: {
                            if (wireType !== 5)
                                break;
                            message.checksum = reader.fixed32();
                            message._checksum = "checksum";
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return StateGet;
        })();

        v1.StateSet = (function() {

            const StateSet = function (properties) {
                if (properties)
                    for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                        if (properties[keys[i]] != null && keys[i] !== "__proto__")
                            this[keys[i]] = properties[keys[i]];
            };

            StateSet.prototype.request = 0;
            StateSet.prototype.sequence = 0;
            StateSet.prototype.position = 0;
            StateSet.prototype.epoch = 0;
            StateSet.prototype.checksum = null;

            let $oneOfFields;

            // Virtual OneOf for proto3 optional field
            $Object.defineProperty(StateSet.prototype, "_checksum", {
                get: $util.oneOfGetter($oneOfFields = ["checksum"]),
                set: $util.oneOfSetter($oneOfFields)
            });

            StateSet.encode = function (message, writer, _depth) {
                if (!writer)
                    writer = $Writer.create();
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $util.recursionLimit)
                    throw $Error("max depth exceeded");
                if (message.request != null && $Object.hasOwnProperty.call(message, "request") && message.request !== 0)
                    writer.uint32(8).uint32(message.request);
                if (message.sequence != null && $Object.hasOwnProperty.call(message, "sequence") && message.sequence !== 0)
                    writer.uint32(16).uint32(message.sequence);
                if (message.position != null && $Object.hasOwnProperty.call(message, "position") && message.position !== 0)
                    writer.uint32(24).uint32(message.position);
                if (message.epoch != null && $Object.hasOwnProperty.call(message, "epoch") && message.epoch !== 0)
                    writer.uint32(32).uint32(message.epoch);
                if (message.checksum != null && $Object.hasOwnProperty.call(message, "checksum"))
                    writer.uint32(45).fixed32(message.checksum);
                if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                    for (let i = 0; i < message.$unknowns.length; ++i)
                        writer.raw(message.$unknowns[i]);
                return writer;
            };

            StateSet.decode = function (reader, length, _end, _depth, _target) {
                if (!(reader instanceof $Reader))
                    reader = $Reader.create(reader);
                if (_depth === $undefined)
                    _depth = 0;
                if (_depth > $Reader.recursionLimit)
                    throw $Error("max depth exceeded");
                let end, message, value;
                if (length === $undefined)
                    end = reader.len;
                else {
                    end = reader.pos + length;
                    if (end > reader.len)
                        throw $RangeError("index out of range");
                    length = reader.len;
                    reader.len = end;
                }
                message = _target || new $root.seamline.v1.StateSet();
                while (reader.pos < end) {
                    let start = reader.pos;
                    let tag = reader.tag();
                    if (tag === _end) {
                        _end = $undefined;
                        break;
                    }
                    let wireType = tag & 7;
                    switch (tag >>>= 3) {
                    case 1: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.request = value;
                            else
                                delete message.request;
                            continue;
                        }
                    case 2: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.sequence = value;
                            else
                                delete message.sequence;
                            continue;
                        }
                    case 3: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.position = value;
                            else
                                delete message.position;
                            continue;
                        }
                    case 4: {
                            if (wireType !== 0)
                                break;
                            if (value = reader.uint32())
                                message.epoch = value;
                            else
                                delete message.epoch;
                            continue;
                        }
                    case 5: {
                            if (wireType !== 5)
                                break;
                            message.checksum = reader.fixed32();
                            message._checksum = "checksum";
                            continue;
                        }
                    }
                    reader.skipType(wireType, _depth, tag);
                    if (!reader.discardUnknown) {
                        $util.makeProp(message, "$unknowns", false);
                        (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                    }
                }
                if (length !== $undefined) {
                    if (reader.pos !== end)
                        throw $RangeError("index out of range");
                    reader.len = length;
                }
                if (_end !== $undefined)
                    throw $Error("missing end group");
                return message;
            };

            return StateSet;
        })();

        return v1;
    })();

    return seamline;
})();
