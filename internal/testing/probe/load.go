package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

// alive only answers.
func alive([]string) (any, error) { return "alive", nil }

// wait reports that it runs, and waits until its input ends.
func wait([]string) (any, error) {
	fmt.Println(`"running"`)
	_, err := io.Copy(io.Discard, os.Stdin)
	return "done", err
}

// burn uses all CPUs for a time, in milliseconds.
func burn(args []string) (any, error) {
	ms, err := strconv.Atoi(args[0])
	if err != nil {
		return nil, err
	}
	end := time.Now().Add(time.Duration(ms) * time.Millisecond)
	for range 2 * runtime.NumCPU() {
		go func() {
			for time.Now().Before(end) {
				continue
			}
		}()
	}
	<-time.After(time.Until(end))
	return "burnt", nil
}

// fork starts processes until that fails, and reports how many ran at once and the error. Argument: the
// maximum.
func fork(args []string) (any, error) {
	most, err := strconv.Atoi(args[0])
	if err != nil {
		return nil, err
	}
	var running []*exec.Cmd
	stopped := "nothing"
	for range most {
		c := exec.CommandContext(context.Background(), "/proc/self/exe", "wait")
		if _, err := c.StdinPipe(); err != nil {
			return nil, err
		}
		if err := c.Start(); err != nil {
			stopped = nameOf(err)
			break
		}
		running = append(running, c)
	}
	for _, c := range running {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	return map[string]string{"ran": strconv.Itoa(len(running)), "stopped": stopped}, nil
}

// hog allocates memory, and keeps it. Argument: MiB.
func hog(args []string) (any, error) {
	mib, err := strconv.Atoi(args[0])
	if err != nil {
		return nil, err
	}
	for range mib {
		piece, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			return nil, err
		}
		for i := 0; i < len(piece); i += os.Getpagesize() {
			piece[i] = 1
		}
	}
	return "all of it", nil
}

// listen listens at an address.
func listen(args []string) (any, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", args[0])
	if err == nil {
		l.Close()
	}
	return nameOf(err), nil
}

// ping sends an ICMP echo request to loopback, without a raw socket.
func ping([]string) (any, error) {
	conn, err := icmp.ListenPacket("udp4", "0.0.0.0")
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	message := icmp.Message{Type: ipv4.ICMPTypeEcho, Body: &icmp.Echo{Seq: 1, Data: []byte("croft")}}
	packet, err := message.Marshal(nil)
	if err != nil {
		return nil, err
	}
	if _, err := conn.WriteTo(packet, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}); err != nil {
		return nil, err
	}
	if err := conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return nil, err
	}
	_, from, err := conn.ReadFrom(make([]byte, 1500))
	if err != nil {
		return nil, err
	}
	return from.String(), nil
}

// queue leaves a System V segment and a POSIX shared memory file behind, for other containers to find
// if they shared its IPC namespace.
func queue([]string) (any, error) {
	const private, create = 0, 0o1600
	_, _, errno := unix.Syscall(unix.SYS_SHMGET, private, 4096, create)
	if errno != 0 {
		return nil, errno
	}
	return "left", os.WriteFile("/dev/shm/left", []byte("x"), 0o600)
}

// trace attaches to a process as a debugger would: with "other", to a child of another user (the ID in
// the second argument); with "same", to one of the same user.
func trace(args []string) (any, error) {
	runtime.LockOSThread()
	c := exec.CommandContext(context.Background(), "/proc/self/exe", "wait")
	if args[0] == "other" {
		uid, err := strconv.ParseUint(args[1], 10, 32)
		if err != nil {
			return nil, err
		}
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	stdin, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	answer := nameOf(unix.PtraceAttach(c.Process.Pid))
	_ = stdin.Close()
	_ = c.Process.Kill()
	_ = c.Wait()
	return answer, nil
}
