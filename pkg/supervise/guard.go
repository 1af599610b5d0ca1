package supervise

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/node"
)

// Panic is what a function has panicked with. errors.As finds it in what Catch
// and Guard return.
type Panic struct {
	// Name is the name that the function was guarded under.
	Name string
	// Cause is the panic's argument, Stack the goroutine's stack at the panic.
	Cause any
	Stack []byte

	logged atomic.Bool
}

func (p *Panic) Error() string { return fmt.Sprintf("cannot run %s: panic: %v", p.Name, p.Cause) }

// Catch calls f. A panic of f becomes an error of kind node.Internal, made of a
// *Panic, which the caller passes on to somebody who logs it. Where there is a
// logger, Guard is the better choice.
func Catch(name string, f func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = node.WithKind(node.Internal, &Panic{Name: name, Cause: cause, Stack: debug.Stack()})
		}
	}()
	return f()
}

// Guard calls f. A panic of f is logged with its stack, and becomes an error of
// kind node.Internal, made of a *Panic. So is one that f has from Catch; one
// that was logged already isn't logged again.
func Guard(log zerolog.Logger, name string, f func() error) error {
	err := Catch(name, f)
	logPanic(log, err)
	return err
}

// logPanic logs err if it is made of a panic that nobody has logged.
func logPanic(log zerolog.Logger, err error) {
	if p := panicToLog(err); p != nil {
		log.Error().Str("goroutine", p.Name).Err(err).Bytes("stack", p.Stack).Msg("panic")
	}
}

// Do is Guard for an f that has no error to return. It reports whether f came
// to its end.
func Do(log zerolog.Logger, name string, f func()) bool {
	return Guard(log, name, func() error {
		f()
		return nil
	}) == nil
}

// panicToLog is the panic that err is made of; nil when there is none, or when
// somebody has logged it.
func panicToLog(err error) *Panic {
	var p *Panic
	if !errors.As(err, &p) || p.logged.Swap(true) {
		return nil
	}
	return p
}
