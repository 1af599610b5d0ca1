package main

import (
	"context"
	"reflect"
	"time"

	"github.com/pkg/errors"
)

// maxMethods is how many methods a contract may have.
const maxMethods = 8

// checkContract reports why an interface can't be a contract: its stub can't
// express it, or a value wouldn't survive the wire unchanged.
func checkContract(t reflect.Type) error {
	if t.Kind() != reflect.Interface || t.Name() == "" {
		return errors.Errorf("cannot use %s as a contract: it isn't a named interface", t)
	}
	if n := t.NumMethod(); n == 0 || n > maxMethods {
		return errors.Errorf("cannot use %s as a contract: it has %d methods, allowed are 1 to %d", t, n, maxMethods)
	}
	for i := range t.NumMethod() {
		m := t.Method(i)
		if err := checkMethod(m.Type); err != nil {
			return errors.Wrapf(err, "cannot use %s as a contract: %s", t, m.Name)
		}
	}
	return nil
}

func checkMethod(t reflect.Type) error {
	if t.NumOut() == 1 && t.Out(0).Kind() == reflect.Chan {
		return checkStream(t)
	}
	if t.IsVariadic() {
		return errors.New("it is variadic")
	}
	for i := range t.NumIn() {
		if err := checkType(t.In(i), nil); err != nil {
			return errors.Wrapf(err, "argument %d", i)
		}
	}
	last := t.NumOut() - 1
	if last < 0 || t.Out(last) != reflect.TypeFor[error]() {
		return errors.New("it doesn't return an error last")
	}
	for i := range last {
		if err := checkType(t.Out(i), nil); err != nil {
			return errors.Wrapf(err, "result %d", i)
		}
	}
	return nil
}

func checkStream(t reflect.Type) error {
	if t.NumIn() != 1 || t.In(0) != reflect.TypeFor[context.Context]() {
		return errors.New("a stream takes a context and nothing else")
	}
	if t.Out(0).ChanDir() != reflect.RecvDir {
		return errors.New("a stream returns a channel to receive from")
	}
	if t.Out(0).Elem().Name() == "" {
		return errors.Errorf("a stream's events have a named type, not %s", t.Out(0).Elem())
	}
	return checkType(t.Out(0).Elem(), nil)
}

// checkType allows basic types, named structs, slices of them and named maps;
// above are the structs that contain t.
func checkType(t reflect.Type, above []reflect.Type) error {
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return nil
	case reflect.Slice:
		return checkType(t.Elem(), above)
	case reflect.Map:
		if t.Name() == "" {
			return errors.Errorf("%s has no name", t)
		}
		if t.Key().Kind() != reflect.String {
			return errors.Errorf("the keys of %s aren't strings", t)
		}
		return checkType(t.Elem(), above)
	case reflect.Struct:
		return checkStruct(t, above)
	}
	return errors.Errorf("%s is a %s", t, t.Kind())
}

func checkStruct(t reflect.Type, above []reflect.Type) error {
	if t == reflect.TypeFor[time.Time]() {
		return nil
	}
	if t.Name() == "" {
		return errors.Errorf("%s has no name", t)
	}
	for _, a := range above {
		if a == t {
			return errors.Errorf("%s holds itself", t)
		}
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			return errors.Errorf("%s.%s doesn't travel: it isn't exported", t, f.Name)
		}
		if err := checkType(f.Type, append(above, t)); err != nil {
			return errors.Wrapf(err, "%s.%s", t, f.Name)
		}
	}
	return nil
}
