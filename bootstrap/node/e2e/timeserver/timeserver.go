// Package timeserver answers NTP requests (RFC 5905) with a clock of the test's choice.
package timeserver

import (
	"encoding/binary"
	"net"
	"time"
)

const (
	size = 48
	// sinceEpoch are the seconds from NTP's epoch, 1900, to that of Unix.
	sinceEpoch = 2208988800
)

// Serve answers on conn with the time of now until conn is closed.
func Serve(conn net.PacketConn, now func() time.Time) {
	buffer := make([]byte, 1024)
	for {
		n, from, err := conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		if n >= size {
			_, _ = conn.WriteTo(Answer(buffer[:size], now()), from)
		}
	}
}

// Answer is the answer of a server of stratum 1 to a request that has come at that time.
func Answer(request []byte, at time.Time) []byte {
	out := make([]byte, size)
	version := request[0] >> 3 & 7
	out[0] = version<<3 | 4                      // a server's answer; no leap second
	out[1], out[2], out[3] = 1, request[2], 0xec // stratum 1, the client's interval, a clock of a microsecond
	copy(out[12:], "LOCL")
	stamp(out[16:], at) // the clock was set just now
	copy(out[24:32], request[40:48])
	stamp(out[32:], at)
	stamp(out[40:], at)
	return out
}

// stamp writes a time: seconds since 1900 and their 2^32nd parts.
func stamp(to []byte, at time.Time) {
	binary.BigEndian.PutUint32(to, uint32(at.Unix()+sinceEpoch))
	binary.BigEndian.PutUint32(to[4:], uint32((uint64(at.Nanosecond())<<32)/uint64(time.Second)))
}
