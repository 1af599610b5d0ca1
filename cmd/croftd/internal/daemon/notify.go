package daemon

import (
	"net"
	"os"
	"strings"

	"github.com/pkg/errors"
)

// notify sends a state ("READY=1", "STOPPING=1") to the service manager; without one it does nothing.
func notify(state string) error {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return nil
	}
	if strings.HasPrefix(socket, "@") {
		socket = "\x00" + socket[1:]
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return errors.Wrap(err, "cannot tell the service manager")
	}
	defer conn.Close()
	_, err = conn.Write([]byte(state))
	return errors.Wrap(err, "cannot tell the service manager")
}
