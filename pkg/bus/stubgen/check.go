package main

import (
	"context"
	"fmt"
	"reflect"
	"time"
)

// maxMethods is how many methods a contract may have.
const maxMethods = 8

// checkContract reports why an interface can't be a contract: its stub can't
// express it, or a value wouldn't survive the wire unchanged.
func checkContract(t reflect.Type) error {
	if t.Kind() != reflect.Interface || t.Name() == "" {
		return fmt.Errorf("cannot use %s as a contract: it isn't a named interface", t)
	}
	if n := t.NumMethod(); n == 0 || n > maxMethods {
		return fmt.Errorf("cannot use %s as a contract: it has %d methods, allowed are 1 to %d", t, n, maxMethods)
	}
	for i := range t.NumMethod() {
		m := t.Method(i)
		if err := checkMethod(m.Type); err != nil {
			return fmt.Errorf("cannot use %s as a contract: %s: %w", t, m.Name, err)
		}
	}
	return nil
}

func checkMethod(t reflect.Type) error {
	if t.NumOut() == 1 && t.Out(0).Kind() == reflect.Chan {
		return checkStream(t)
	}
	if t.IsVariadic() {
		return fmt.Errorf("it is variadic")
	}
	for i := range t.NumIn() {
		if err := checkType(t.In(i), nil); err != nil {
			return fmt.Errorf("argument %d: %w", i, err)
		}
	}
	last := t.NumOut() - 1
	if last < 0 || t.Out(last) != reflect.TypeFor[error]() {
		return fmt.Errorf("it doesn't return an error last")
	}
	for i := range last {
		if err := checkType(t.Out(i), nil); err != nil {
			return fmt.Errorf("result %d: %w", i, err)
		}
	}
	return nil
}

func checkStream(t reflect.Type) error {
	if t.NumIn() != 1 || t.In(0) != reflect.TypeFor[context.Context]() {
		return fmt.Errorf("a stream takes a context and nothing else")
	}
	if t.Out(0).ChanDir() != reflect.RecvDir {
		return fmt.Errorf("a stream returns a channel to receive from")
	}
	if t.Out(0).Elem().Name() == "" {
		return fmt.Errorf("a stream's events have a named type, not %s", t.Out(0).Elem())
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
			return fmt.Errorf("%s has no name", t)
		}
		if t.Key().Kind() != reflect.String {
			return fmt.Errorf("the keys of %s aren't strings", t)
		}
		return checkType(t.Elem(), above)
	case reflect.Struct:
		return checkStruct(t, above)
	}
	return fmt.Errorf("%s is a %s", t, t.Kind())
}

func checkStruct(t reflect.Type, above []reflect.Type) error {
	if t == reflect.TypeFor[time.Time]() {
		return nil
	}
	if t.Name() == "" {
		return fmt.Errorf("%s has no name", t)
	}
	for _, a := range above {
		if a == t {
			return fmt.Errorf("%s holds itself", t)
		}
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			return fmt.Errorf("%s.%s doesn't travel: it isn't exported", t, f.Name)
		}
		if err := checkType(f.Type, append(above, t)); err != nil {
			return fmt.Errorf("%s.%s: %w", t, f.Name, err)
		}
	}
	return nil
}
