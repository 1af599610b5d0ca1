package bus

import (
	"math"
	"reflect"

	"github.com/pkg/errors"
	"github.com/vmihailenco/msgpack/codes"
)

// checkRange refuses an argument that is an integer beyond what its parameter of type t can hold: the decoder takes it with another value.
// Which of the formats of integers it came in doesn't matter.
func checkRange(argument []byte, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	zero := reflect.Zero(t)
	if !zero.CanInt() && !zero.CanUint() || len(argument) == 0 || !isInteger(codes.Code(argument[0])) {
		return nil
	}
	var sent any
	if err := decode(argument, &sent); err != nil {
		return err
	}
	if holds(zero, reflect.ValueOf(sent)) {
		return nil
	}
	if bits := t.Bits(); zero.CanInt() {
		return errors.Errorf("it is %d, must be %s, %d to %d", sent, t, math.MinInt64>>(64-bits), math.MaxInt64>>(64-bits))
	}
	return errors.Errorf("it is %d, must be %s, 0 to %d", sent, t, uint64(math.MaxUint64)>>(64-t.Bits()))
}

// holds reports whether a value of into's type, an integer's, can hold the integer n.
func holds(into, n reflect.Value) bool {
	switch {
	case n.CanInt() && into.CanInt():
		return !into.OverflowInt(n.Int())
	case n.CanInt():
		return n.Int() >= 0 && !into.OverflowUint(uint64(n.Int()))
	case into.CanInt():
		return n.Uint() <= math.MaxInt64 && !into.OverflowInt(int64(n.Uint()))
	}
	return !into.OverflowUint(n.Uint())
}

// isInteger reports whether c is the first byte of an integer.
func isInteger(c codes.Code) bool {
	return codes.IsFixedNum(c) || c >= codes.Uint8 && c <= codes.Int64
}
