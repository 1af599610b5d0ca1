package resp_test

import (
	"bytes"
	"net"
	"time"
)

// pipe is a connection over a buffer.
type pipe struct{ *bytes.Buffer }

func (pipe) Close() error                     { return nil }
func (pipe) LocalAddr() net.Addr              { return nil }
func (pipe) RemoteAddr() net.Addr             { return nil }
func (pipe) SetDeadline(time.Time) error      { return nil }
func (pipe) SetReadDeadline(time.Time) error  { return nil }
func (pipe) SetWriteDeadline(time.Time) error { return nil }
