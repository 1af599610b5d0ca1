package shell

import (
	"context"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"

	"github.com/pkg/errors"
)

// PlainText is an error in words for people: the system's text of a failed connection
// is shortened. --debug shows all of it.
func (s *Shell) PlainText(err error) string {
	if s.debug {
		return err.Error()
	}
	return plain(err)
}

func plain(err error) string {
	text := err.Error()
	walk(err, func(raw error) bool {
		short := inShort(raw)
		if short == "" {
			return true
		}
		text = strings.ReplaceAll(text, raw.Error(), short)
		return false
	})
	return text
}

// walk visits err and the errors that it wraps, until visit returns false.
func walk(err error, visit func(error) bool) {
	if err == nil || !visit(err) {
		return
	}
	switch e := err.(type) { //nolint:errorlint // each layer is looked at by itself
	case interface{ Unwrap() error }:
		walk(e.Unwrap(), visit)
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			walk(inner, visit)
		}
	}
}

// inShort explains a connection's failure; empty for other errors.
func inShort(err error) string {
	at := ""
	switch e := err.(type) { //nolint:errorlint // as above
	case *url.Error:
		if u, perr := url.Parse(e.URL); perr == nil && u.Host != "" {
			at = " at " + u.Host
		}
	case *net.OpError:
		if e.Addr != nil {
			at = " at " + e.Addr.String()
		}
	default:
		return ""
	}
	var (
		dns     *net.DNSError
		timeout net.Error
	)
	switch {
	case errors.As(err, &dns):
		return "there is no address for " + dns.Name
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nobody answers" + at
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return "there is no way to it" + at
	case errors.Is(err, context.Canceled):
		return "it was interrupted"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time" + at
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "the connection was cut" + at
	}
	return "the connection failed" + at
}
