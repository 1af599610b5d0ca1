package dns

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"time"

	"github.com/miekg/dns"
)

// serveTCP accepts connections, as many as the limits allow.
func (z *zone) serveTCP(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			if !z.rest(l, err) {
				return
			}
			continue
		}
		z.health.recovered(l)
		if z.quota.connect() {
			z.wait.Go(func() {
				defer z.quota.disconnect()
				z.serveConn(conn)
			})
			continue
		}
		conn.Close()
		if !z.idle(breath) {
			return
		}
	}
}

// serveConn answers the queries of one connection, one after the other. It
// ends when a whole query or the taking of an answer takes longer than a
// connection may be idle.
func (z *zone) serveConn(conn net.Conn) {
	defer conn.Close()
	stop := context.AfterFunc(z.ctx, func() { conn.Close() })
	defer stop()
	for {
		if conn.SetDeadline(time.Now().Add(z.idleTime)) != nil {
			return
		}
		packet, ok := readQuery(conn)
		if !ok || !z.quota.admit() {
			return
		}
		out := z.handleTCP(packet)
		if out == nil || conn.SetDeadline(time.Now().Add(z.idleTime)) != nil {
			return
		}
		if _, err := conn.Write(out); err != nil {
			return
		}
	}
}

func readQuery(conn net.Conn) ([]byte, bool) {
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, false
	}
	n := int(binary.BigEndian.Uint16(length[:]))
	if n < headerSize || n > maxQuery {
		return nil, false
	}
	packet := make([]byte, n)
	_, err := io.ReadFull(conn, packet)
	return packet, err == nil
}

// handleTCP returns the answer and its length before it, nil when there is none.
func (z *zone) handleTCP(packet []byte) []byte {
	v := judge(z.names.Load(), packet)
	reply := v.reply
	switch {
	case v.query == nil:
	case !z.quota.forward():
		reply = z.failed(v.query)
	default:
		reply = z.resolve(v.query)
		z.quota.forwarded()
	}
	if reply == nil {
		return nil
	}
	out, err := pack(reply, dns.MaxMsgSize)
	if err != nil {
		return nil
	}
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(out))), out...)
}
