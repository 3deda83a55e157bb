;; An operator whose functions are filled in by tests: `{{name}}` stands for core Wasm text. Memory: results at 16 (zero: ok), the
;; descriptor from 1024 on, what a test puts at 8192 and after, and what the host passes from 65536 on.
(component $operator-in-text
  (import "cofferdam:operator/keyed-state@{{import-version}}" (instance $keyed-state
    (type $column' (record (field "ends" (list u32)) (field "bytes" (list u8))))
    (export "column" (type $column (eq $column')))
    (type $cells' (record (field "present" (list u8)) (field "values" $column)))
    (export "cells" (type $cells (eq $cells')))
    (export "get" (func (param "state" u32) (param "keys" (list u32)) (result $cells)))
    (export "put" (func (param "state" u32) (param "keys" (list u32)) (param "values" $column)))
    (export "list-append" (func (param "state" u32) (param "keys" (list u32)) (param "values" $column)))
    (export "list-read"
      (func (param "state" u32) (param "key" u32) (param "start" u32) (param "max-bytes" u32) (result $column)))))
  (import "cofferdam:operator/output@{{import-version}}" (instance $output
    (type $column' (record (field "ends" (list u32)) (field "bytes" (list u8))))
    (export "column" (type $column (eq $column')))
    (type $emit-keys' (variant (case "none") (case "known" (list u32)) (case "fresh" $column)))
    (export "emit-keys" (type $emit-keys (eq $emit-keys')))
    (export "emit"
      (func (param "port" u32) (param "keys" $emit-keys) (param "values" $column) (param "timestamps" (list s64))))
    (export "reject" (func (param "record-index" u32) (param "message" string)))))
  (import "cofferdam:operator/runtime@{{import-version}}" (instance $runtime
    (export "processing-time" (func (result s64)))
    (export "log" (func (param "level" u8) (param "message" string)))
    (export "panicked" (func (param "record-index" (option u32)) (param "message" string)))))
  {{imports}}

  (type $column' (record (field "ends" (list u32)) (field "bytes" (list u8))))
  (export $column "column" (type $column'))
  (type $batch'
    (record (field "keys" $column) (field "key-of" (list u32)) (field "values" $column) (field "timestamps" (list s64))))
  (export $batch "batch" (type $batch'))
  (type $more (list (tuple string string)))
  (type $port' (record (field "name" string) (field "partitioning" string) (field "key-schema" string)
    (field "value-schema" string) (field "more" $more)))
  (export $port "port" (type $port'))
  (type $state' (record (field "name" string) (field "kind" string) (field "schema" string) (field "version" u32)
    (field "more" $more)))
  (export $state "state" (type $state'))
  (type $operator-descriptor' (record (field "name" string) (field "version" string) (field "inputs" (list $port))
    (field "outputs" (list $port)) (field "states" (list $state)) (field "more" $more)))
  (export $operator-descriptor "operator-descriptor" (type $operator-descriptor'))

  (core module $memory
    (memory (export "memory") 16)
    (global $free (mut i32) (i32.const 65536))
    (func (export "realloc") (param $old i32) (param $old-len i32) (param $align i32) (param $len i32) (result i32)
      (local $at i32)
      (local.set $at (i32.and (i32.add (global.get $free) (i32.const 7)) (i32.const -8)))
      (global.set $free (i32.add (local.get $at) (local.get $len)))
      (local.get $at))
    (func (export "reset") (global.set $free (i32.const 65536))))
  (core instance $memory (instantiate $memory))
  (alias core export $memory "memory" (core memory $mem))
  (alias core export $memory "realloc" (core func $realloc))

  (core func $get (canon lower (func $keyed-state "get") (memory $mem) (realloc $realloc)))
  (core func $put (canon lower (func $keyed-state "put") (memory $mem)))
  (core func $list-append (canon lower (func $keyed-state "list-append") (memory $mem)))
  (core func $list-read (canon lower (func $keyed-state "list-read") (memory $mem) (realloc $realloc)))
  (core func $emit (canon lower (func $output "emit") (memory $mem)))
  (core func $reject (canon lower (func $output "reject") (memory $mem)))
  (core func $processing-time (canon lower (func $runtime "processing-time")))
  (core func $log (canon lower (func $runtime "log") (memory $mem)))
  (core func $panicked (canon lower (func $runtime "panicked") (memory $mem)))

  (core module $main
    (import "memory" "memory" (memory 16))
    (import "memory" "reset" (func $reset))
    (import "host" "get" (func $get (param i32 i32 i32 i32)))
    (import "host" "put" (func $put (param i32 i32 i32 i32 i32 i32 i32)))
    (import "host" "list-append" (func $list-append (param i32 i32 i32 i32 i32 i32 i32)))
    (import "host" "list-read" (func $list-read (param i32 i32 i32 i32 i32)))
    (import "host" "emit" (func $emit (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
    (import "host" "reject" (func $reject (param i32 i32 i32)))
    (import "host" "processing-time" (func $processing-time (result i64)))
    (import "host" "log" (func $log (param i32 i32 i32)))
    (import "host" "panicked" (func $panicked (param i32 i32 i32 i32)))
    {{core}}
    (func (export "describe") (result i32)
      {{describe}}
      (i32.const {{descriptor}}))
    (func (export "open") (result i32)
      {{open}}
      (i32.const 16))
    (func (export "process")
      (param $port i32) (param $key-ends i32) (param $keys i32) (param $key-bytes i32) (param $key-bytes-len i32)
      (param $key-of i32) (param $key-of-len i32) (param $ends i32) (param $records i32) (param $bytes i32) (param $bytes-len i32)
      (param $times i32) (param $times-len i32) (result i32)
      {{process}}
      (call $reset)
      (i32.const 16))
    (func (export "finish") (param $key-ends i32) (param $keys i32) (param $key-bytes i32) (param $key-bytes-len i32) (result i32)
      {{finish}}
      (call $reset)
      (i32.const 16))
    {{data}})
  (core instance $main (instantiate $main
    (with "memory" (instance $memory))
    (with "host" (instance
      (export "get" (func $get)) (export "put" (func $put)) (export "list-append" (func $list-append))
      (export "list-read" (func $list-read)) (export "emit" (func $emit)) (export "reject" (func $reject))
      (export "processing-time" (func $processing-time)) (export "log" (func $log)) (export "panicked" (func $panicked))
      {{host}}))))

  (func $describe (result $operator-descriptor) (canon lift (core func $main "describe") (memory $mem)))
  (func $open (result (result (error string))) (canon lift (core func $main "open") (memory $mem)))
  (func $process (param "port" u32) (param "records" $batch) (result (result (error string)))
    (canon lift (core func $main "process") (memory $mem) (realloc $realloc)))
  (func $finish (param "keys" $column) (result (result (error string)))
    (canon lift (core func $main "finish") (memory $mem) (realloc $realloc)))
  (instance $operator
    (export "describe" (func $describe)) (export "open" (func $open)) (export "process" (func $process)))
  (export "cofferdam:operator/operator@{{export-version}}" (instance $operator))
  (instance $finish-hook (export "finish" (func $finish)))
  (export "cofferdam:operator/finish-hook@{{export-version}}" (instance $finish-hook)))
