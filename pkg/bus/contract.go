package bus

import (
	"context"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"sync"

	"github.com/pkg/errors"
	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/pkg/node"
)

// object is an implementation seen through the methods of its contract: only these
// can be called.
type object struct {
	methods map[string]method
	streams map[string]reflect.Value
	// refusal is why none of its methods can be called; nil for an object with an implementation.
	refusal func() error
}

// method is a method of a contract.
type method struct {
	fn       reflect.Value
	in       []reflect.Type
	variadic bool
	// results are the positions of its results but the error, failure is the
	// error's position or -1.
	results []int
	failure int
}

// versionForm is the form of an object's version; empty is allowed too.
var versionForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9.-]{0,31}$`)
})

// Methods are the functions of an object, by the names of its contract's methods. Those of package node's contracts are made by
// the generated functions of package stubs, such as stubs.StorageMethods: the compiler holds that they are the contract's.
type Methods map[string]any

// Register is RegisterMethods with the methods of implementation's contract C, an interface: for contracts that have no generated table. It looks the
// methods up by reflection, and in a program that calls it the linker keeps every exported method of every type: see
// docs/adr/0050-linked-methods.md.
func Register[C any](s *Server, id zbus.ObjectID, implementation C) error {
	contract := reflect.ValueOf(&implementation).Elem()
	if contract.Kind() != reflect.Interface {
		return node.Errorf(node.Invalid, "cannot register %s: its contract %s is not an interface", id, contract.Type())
	}
	if contract.IsNil() {
		return RegisterMethods(s, id, nil)
	}
	return s.register(id, func() (*object, error) { return newObject(contract) })
}

// methodsOf are the methods of an implementation that is seen as its contract.
func methodsOf(contract reflect.Value) Methods {
	methods := Methods{}
	for i := range contract.NumMethod() {
		methods[contract.Type().Method(i).Name] = contract.Method(i).Interface()
	}
	return methods
}

// RegisterMethods serves methods as an object of the server's module; nothing else of their implementation can be called. Those of the
// form func(context.Context) <-chan T are streams. Register before Run.
func RegisterMethods(s *Server, id zbus.ObjectID, methods Methods) error {
	if methods == nil {
		return node.Errorf(node.Invalid, "cannot register %s: its implementation is nil", id)
	}
	return s.register(id, func() (*object, error) { return served(methods) })
}

// register serves the object that from makes.
func (s *Server) register(id zbus.ObjectID, from func() (*object, error)) error {
	if err := checkObject(id); err != nil {
		return err
	}
	o, err := from()
	if err != nil {
		return node.Errorf(node.Invalid, "cannot register %s: %w", id, err)
	}
	return s.objects.register(id, o)
}

// checkObject says what is wrong with an object's name and version.
func checkObject(id zbus.ObjectID) error {
	if !moduleForm().MatchString(id.Name) {
		return node.Errorf(node.Invalid, "cannot register %q: a name has letters, digits, - and _", id)
	}
	if id.Version != "" && !versionForm().MatchString(string(id.Version)) {
		return node.Errorf(node.Invalid, "cannot register %q: a version has letters, digits, dots and -", id)
	}
	return nil
}

// newObject is an implementation seen as its contract.
func newObject(contract reflect.Value) (*object, error) { return served(methodsOf(contract)) }

// served is the object that has these methods.
func served(methods Methods) (*object, error) {
	if len(methods) == 0 {
		return nil, errors.New("it has no methods")
	}
	o := &object{methods: map[string]method{}, streams: map[string]reflect.Value{}}
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		fn := reflect.ValueOf(methods[name])
		if fn.Kind() != reflect.Func {
			return nil, errors.Errorf("method %s is of type %T, it must be a function", name, methods[name])
		}
		if fn.IsNil() {
			return nil, errors.Errorf("method %s is a nil %T", name, methods[name])
		}
		if isStream(fn.Type()) {
			o.streams[name] = fn
			continue
		}
		m, err := newMethod(fn)
		if err != nil {
			return nil, errors.Wrapf(err, "method %s", name)
		}
		o.methods[name] = m
	}
	return o, nil
}

func isStream(t reflect.Type) bool {
	return t.NumIn() == 1 && t.In(0) == reflect.TypeFor[context.Context]() &&
		t.NumOut() == 1 && t.Out(0).Kind() == reflect.Chan && t.Out(0).ChanDir() != reflect.SendDir
}

func newMethod(fn reflect.Value) (method, error) {
	t := fn.Type()
	m := method{fn: fn, variadic: t.IsVariadic(), failure: -1}
	for i := range t.NumIn() {
		in := t.In(i)
		if !travels(in) {
			return m, errors.Errorf("an argument of type %s can't travel", in)
		}
		m.in = append(m.in, in)
	}
	for i := range t.NumOut() {
		switch out := t.Out(i); {
		case out == reflect.TypeFor[error]() && i == t.NumOut()-1:
			m.failure = i
		case !travels(out):
			return m, errors.Errorf("a result of type %s can't travel", out)
		default:
			m.results = append(m.results, i)
		}
	}
	return m, nil
}

func travels(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.UnsafePointer, reflect.Interface, reflect.Complex64, reflect.Complex128:
		return false
	}
	return true
}

// arguments decodes a request's inputs, one value a parameter.
func (m method) arguments(inputs [][]byte) ([]reflect.Value, error) {
	fixed := len(m.in)
	if m.variadic {
		fixed--
	}
	if len(inputs) < fixed || (!m.variadic && len(inputs) > fixed) {
		return nil, errors.Errorf("it takes %d arguments, %d came", fixed, len(inputs))
	}
	values := make([]reflect.Value, 0, len(inputs))
	for i, input := range inputs {
		t := m.in[min(i, len(m.in)-1)]
		if m.variadic && i >= fixed {
			t = t.Elem()
		}
		v := reflect.New(t)
		if err := decode(input, v.Interface()); err != nil {
			return nil, errors.Wrapf(err, "argument %d must be %s", i, t)
		}
		if err := checkRange(input, t); err != nil {
			return nil, errors.Wrapf(err, "argument %d", i)
		}
		values = append(values, v.Elem())
	}
	return values, nil
}

// call runs the method and encodes its results; failure is the method's own error.
func (m method) call(args []reflect.Value) (data []byte, failure, err error) {
	values := m.fn.Call(args)
	if m.failure >= 0 && !values[m.failure].IsNil() {
		failure = values[m.failure].Interface().(error)
	}
	switch len(m.results) {
	case 0:
		return nil, failure, nil
	case 1:
		data, err = encode(values[m.results[0]].Interface())
	default:
		all := make([]any, 0, len(m.results))
		for _, i := range m.results {
			all = append(all, values[i].Interface())
		}
		data, err = encode(all)
	}
	return data, failure, err
}

// nothing is the encoded zero values of the results. It is sent along with an
// error because the bare library's stubs decode results before they look at it.
func (m method) nothing() []byte {
	all := make([]any, 0, len(m.results))
	for _, i := range m.results {
		all = append(all, reflect.Zero(m.fn.Type().Out(i)).Interface())
	}
	var v any = all
	switch len(all) {
	case 0:
		return nil
	case 1:
		v = all[0]
	}
	data, err := encode(v)
	if err != nil {
		return nil
	}
	return data
}
