package node

import (
	"fmt"

	"github.com/pkg/errors"
)

// Kind classifies a failure for the caller. Of an error only kind and text
// survive the bus, and nobody has to match on the text.
//
// A Kind is itself an error: errors.Is(err, node.NotExist) asks for it.
type Kind string

// The kinds. A caller that removes something forgives NotExist; Exist, NoSpace,
// Invalid and Refused are final; Busy and Transient are worth another try; Unknown
// means that the call may or may not have happened.
const (
	NotExist  Kind = "NotExist"
	Exist     Kind = "Exist"
	NoSpace   Kind = "NoSpace"
	Invalid   Kind = "Invalid"
	Refused   Kind = "Refused"
	Busy      Kind = "Busy"
	Transient Kind = "Transient"
	Unknown   Kind = "Unknown"
	// Internal is a failure that was given no kind: a defect or a broken backend.
	Internal Kind = "Internal"
)

// Error makes a Kind usable as the target of errors.Is.
func (k Kind) Error() string { return string(k) }

// Known reports whether k is one of the kinds of this package.
func (k Kind) Known() bool {
	switch k {
	case NotExist, Exist, NoSpace, Invalid, Refused, Busy, Transient, Unknown, Internal:
		return true
	}
	return false
}

// Final reports whether a retry can't help until somebody changes something.
func (k Kind) Final() bool {
	switch k {
	case NotExist, Exist, NoSpace, Invalid, Refused:
		return true
	}
	return false
}

// Error is an error with its kind. Its text is the message alone.
type Error struct {
	Kind    Kind
	Message string
	cause   error
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the wrapped error to errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.cause }

// Is makes errors.Is(err, node.NotExist) work.
func (e *Error) Is(target error) bool {
	k, ok := target.(Kind)
	return ok && k == e.Kind
}

// Errorf makes a kinded error. %w works as in fmt.Errorf, also more than once.
func Errorf(k Kind, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	cause := errors.Unwrap(err)
	if _, several := err.(interface{ Unwrap() []error }); several {
		cause = err
	}
	return &Error{Kind: k, Message: err.Error(), cause: cause}
}

// WithKind gives err a kind and keeps its text; nil stays nil.
func WithKind(k Kind, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Kind: k, Message: err.Error(), cause: err}
}

// KindOf is the kind of the outermost kinded error in err's chain: Internal
// when there is none, empty when err is nil.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	var k Kind
	if errors.As(err, &k) {
		return k
	}
	return Internal
}
