package run

import (
	"errors"
	"fmt"
	"runtime/debug"

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

// Guard calls f. A panic of f is logged, once and with its stack, and becomes
// an error of kind node.Internal, made of a *Panic.
func Guard(log zerolog.Logger, name string, f func() error) error {
	err := Catch(name, f)
	logPanic(log, err)
	return err
}

// logPanic logs err if it is made of a panic.
func logPanic(log zerolog.Logger, err error) {
	var p *Panic
	if errors.As(err, &p) {
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
