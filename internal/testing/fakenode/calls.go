package fakenode

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/croft-edge/croft/pkg/node"
)

// Call is a call of a module's method, such as "Storage.CreateFilesystem".
type Call struct {
	Method string
	// ID identifies the call's object: a name, a container's ID.
	ID string
}

// Calls records the changing calls of a node's modules, and injects failures into
// all calls. Its zero value is ready.
type Calls struct {
	mu      sync.Mutex
	changes []Call
	faults  map[string]*faults
	// all is the error of every call.
	all error
	// mayDie is whether the node dies, dies the length of changes at which it does.
	dies   int
	mayDie bool
}

// faults are the failures of one method.
type faults struct {
	// always is the error of every call; next are those of the next calls.
	always error
	next   []error
	// of are the errors of every call for an object, by its ID.
	of map[string]error
	// lost are the errors of the next calls that happen all the same.
	lost []error
	// held is closed when waiting calls may go on, nil when none waits.
	held chan struct{}
}

// Fail makes each call of a method fail with err until it is called with nil. The
// failed calls change nothing. It panics when no contract has the method.
func (c *Calls) Fail(method string, err error) {
	c.with(method, func(f *faults) { f.always = err })
}

// FailCall is Fail for the calls of one object only.
func (c *Calls) FailCall(call Call, err error) {
	c.with(call.Method, func(f *faults) {
		if f.of == nil {
			f.of = map[string]error{}
		}
		f.of[call.ID] = err
	})
}

// FailAll makes each call of every method fail with err until it is called with nil.
func (c *Calls) FailAll(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = err
}

// FailNext makes the next count calls of a method fail with err.
func (c *Calls) FailNext(method string, count int, err error) {
	c.with(method, func(f *faults) {
		for range count {
			f.next = append(f.next, err)
		}
	})
}

// LoseNext makes the next call of a method happen, while its caller hears err.
func (c *Calls) LoseNext(method string, err error) {
	c.with(method, func(f *faults) { f.lost = append(f.lost, err) })
}

// Hang makes the calls of a method wait until release is called: then they happen,
// whether or not their callers still wait.
func (c *Calls) Hang(method string) (release func()) {
	held := make(chan struct{})
	c.with(method, func(f *faults) { f.held = held })
	return sync.OnceFunc(func() {
		c.with(method, func(f *faults) {
			if f.held == held {
				f.held = nil
			}
		})
		close(held)
	})
}

// Die lets count more changing calls begin; then every call fails.
func (c *Calls) Die(count int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dies, c.mayDie = len(c.changes)+count, true
}

// Revive ends Die.
func (c *Calls) Revive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mayDie = false
}

// Mend ends all injected failures; calls that wait go on waiting.
func (c *Calls) Mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults, c.all, c.mayDie = nil, nil, false
}

// Changes are the changing calls so far, also those that failed.
func (c *Calls) Changes() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.changes)
}

// Forget empties the record.
func (c *Calls) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes = nil
}

func (c *Calls) with(method string, change func(f *faults)) {
	if !slices.Contains(methods(), method) {
		panic("no contract has the method " + method)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.faults == nil {
		c.faults = map[string]*faults{}
	}
	if c.faults[method] == nil {
		c.faults[method] = &faults{}
	}
	change(c.faults[method])
}

// begin records a call and returns its injected failure, and the error that hides
// its answer.
func (c *Calls) begin(method, id string) (fails, lost error) {
	c.mu.Lock()
	if c.mayDie && len(c.changes) >= c.dies {
		c.mu.Unlock()
		return node.Errorf(node.Transient, "cannot call %s: the node has died", method), nil
	}
	if changing(method) {
		c.changes = append(c.changes, Call{method, id})
	}
	f := c.faults[method]
	if f == nil || c.all != nil {
		fails = c.all
		c.mu.Unlock()
		return fails, nil
	}
	fails = cmp.Or(f.of[id], f.always)
	if len(f.next) > 0 {
		fails, f.next = f.next[0], f.next[1:]
	}
	if fails == nil && len(f.lost) > 0 {
		lost, f.lost = f.lost[0], f.lost[1:]
	}
	held := f.held
	c.mu.Unlock()
	if held != nil {
		<-held
	}
	return fails, lost
}

// answer carries out a call of a method unless it must fail.
func answer[T any](c *Calls, method, id string, do func() (T, error)) (T, error) {
	var none T
	fails, lost := c.begin(method, id)
	if fails != nil {
		return none, fails
	}
	out, err := do()
	if err == nil && lost != nil {
		return none, lost
	}
	return out, err
}

// carryOut is answer for a method without a result.
func carryOut(c *Calls, method, id string, do func() error) error {
	_, err := answer(c, method, id, func() (struct{}, error) { return struct{}{}, do() })
	return err
}

// changing reports whether a method may change the node.
func changing(method string) bool {
	_, name, _ := strings.Cut(method, ".")
	for _, reads := range []string{"Inspect", "Exists", "List", "Status", "Servers", "Logs", "Stats", "Subnet", "Gateway", "Monitor", "NodeID", "Sign", "Decrypt", "Encrypt", "Current"} {
		if strings.HasPrefix(name, reads) {
			return false
		}
	}
	return true
}

// methods are the methods of all contracts that the fake node implements.
func methods() (out []string) {
	for name, contract := range map[string]reflect.Type{
		"Storage": reflect.TypeFor[node.Storage](), "VDisks": reflect.TypeFor[node.VDisks](), "ZDB": reflect.TypeFor[node.ZDBNamespaces](),
		"Containers": reflect.TypeFor[node.Containers](), "Images": reflect.TypeFor[node.Images](),
		"Networks": reflect.TypeFor[node.Networks](), "Taps": reflect.TypeFor[node.Taps](), "Debug": reflect.TypeFor[node.Debug](),
		"Identity": reflect.TypeFor[node.IdentityManager](), "VMs": reflect.TypeFor[node.VMs](), "VMImages": reflect.TypeFor[node.VMImages](),
	} {
		for i := range contract.NumMethod() {
			out = append(out, name+"."+contract.Method(i).Name)
		}
	}
	return out
}
