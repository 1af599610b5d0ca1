package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// answerFirst is how long an answer has to leave before the machine ends.
const answerFirst = 200 * time.Millisecond

// crash ends the machine without a warning: how is panic, the default; reboot, as a program may ask for; or off.
func crash(_ http.ResponseWriter, r *http.Request) error {
	var end func()
	switch how := r.URL.Query().Get("how"); how {
	case "", "panic":
		end = func() {
			if err := os.WriteFile("/proc/sysrq-trigger", []byte("c"), 0); err != nil {
				say("cannot crash: %v", err)
			}
		}
	case "reboot":
		end = func() { stop(unix.LINUX_REBOOT_CMD_RESTART) }
	case "off":
		end = func() { stop(unix.LINUX_REBOOT_CMD_POWER_OFF) }
	default:
		return fmt.Errorf("cannot crash by %q: it must be panic, reboot or off", how)
	}
	time.AfterFunc(answerFirst, end)
	return nil
}

// hang makes the machine deaf to requests, to the console and to its power button.
func (g *guestMachine) hang(http.ResponseWriter, *http.Request) error {
	say("hangs")
	time.AfterFunc(answerFirst, func() { g.hung.Store(true) })
	return nil
}

// send sends the body as an ethernet frame, whatever its addresses: from interface eth0, once, by default.
func send(_ http.ResponseWriter, r *http.Request) error {
	name := r.URL.Query().Get("interface")
	if name == "" {
		name = "eth0"
	}
	count, err := number(r, "count", 1)
	if err != nil {
		return err
	}
	frame, err := io.ReadAll(io.LimitReader(r.Body, 1<<16))
	if err != nil {
		return err
	}
	device, err := net.InterfaceByName(name)
	if err != nil {
		return err
	}
	// Protocol 0: nothing is received.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for range count {
		if err := unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: device.Index}); err != nil {
			return fmt.Errorf("cannot send a frame of %d bytes: %w", len(frame), err)
		}
	}
	return nil
}
