package timeserver_test

import (
	"bytes"
	"encoding/binary"
	"net"
	"testing"
	"time"

	"github.com/croft-edge/croft/bootstrap/node/e2e/timeserver"
)

func TestServe(t *testing.T) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	at := time.Date(2030, 1, 2, 3, 4, 5, 500_000_000, time.UTC)
	go timeserver.Serve(conn, func() time.Time { return at })
	client, err := net.Dial("udp", conn.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	request := make([]byte, 48)
	request[0] = 4<<3 | 3
	copy(request[40:], "sentsent")
	if _, err := client.Write(request); err != nil {
		t.Fatal(err)
	}
	if err := client.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 100)
	n, err := client.Read(answer)
	if err != nil {
		t.Fatal(err)
	}
	if n != 48 || answer[0] != 4<<3|4 || answer[1] != 1 || !bytes.Equal(answer[24:32], []byte("sentsent")) {
		t.Errorf("the answer is % x", answer[:n])
	}
	seconds, fraction := binary.BigEndian.Uint32(answer[40:]), binary.BigEndian.Uint32(answer[44:])
	if got := time.Unix(int64(seconds)-2208988800, 0); !got.Equal(at.Truncate(time.Second)) || fraction != 1<<31 {
		t.Errorf("the time is %s and %d, want %s", got, fraction, at)
	}
}
