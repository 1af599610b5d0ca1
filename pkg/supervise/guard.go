package supervise

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/node"
)

// Panic is a function's panic. errors.As finds it in the errors of Catch and
// Guard.
type Panic struct {
	// Name is the name under which the function was guarded.
	Name string
	// Cause is the panic's argument, Stack the goroutine's stack at the panic.
	Cause any
	Stack []byte

	logged atomic.Bool
}

func (p *Panic) Error() string { return fmt.Sprintf("cannot run %s: panic: %v", p.Name, p.Cause) }

// Catch calls f. A panic of f becomes an error of kind node.Internal, made of a
// *Panic, which the caller passes on to be logged. With a logger at hand, use Guard.
func Catch(name string, f func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = node.WithKind(node.Internal, &Panic{Name: name, Cause: cause, Stack: debug.Stack()})
		}
	}()
	return f()
}

// Guard calls f. A panic of f is logged with its stack, and becomes an error of
// kind node.Internal, made of a *Panic. So does one that f returns from Catch;
// a panic is logged only once.
func Guard(log zerolog.Logger, name string, f func() error) error {
	err := Catch(name, f)
	logPanic(log, err)
	return err
}

// logPanic logs err if it is made of an unlogged panic.
func logPanic(log zerolog.Logger, err error) {
	if p := panicToLog(err); p != nil {
		log.Error().Str("goroutine", p.Name).Err(err).Bytes("stack", p.Stack).Msg("panic")
	}
}

// Do is Guard for an f without an error. It reports whether f returned
// normally.
func Do(log zerolog.Logger, name string, f func()) bool {
	return Guard(log, name, func() error {
		f()
		return nil
	}) == nil
}

// panicToLog is the panic that err is made of; nil without one, or when it was
// logged already.
func panicToLog(err error) *Panic {
	var p *Panic
	if !errors.As(err, &p) || p.logged.Swap(true) {
		return nil
	}
	return p
}
