package port

import (
	"os"

	"golang.org/x/sys/unix"
)

// A zdb holds a socket of the node's network, and each connection that it accepts
// is one, too. With any of them a zdb that is in somebody else's hands could leave
// its namespace: the kernel lets a socket that was disconnected connect again. So
// a filter that can't be taken off drops the answers to that: no client's segment
// has SYN and ACK at once. Connections inherit it.

const (
	// tcpFlags is where a TCP segment has its flags, in bytes.
	tcpFlags = 13
	synAck   = 0x12
)

// keepPassive has a socket take connections only. One that is kept so already is
// left as it is.
func keepPassive(fd int) error {
	locked, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_LOCK_FILTER)
	if err != nil || locked == 1 {
		return os.NewSyscallError("getsockopt", err)
	}
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: tcpFlags},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: synAck},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: synAck, Jt: 0, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
		{Code: unix.BPF_RET | unix.BPF_K, K: 1<<32 - 1},
	}
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &prog); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	return os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_LOCK_FILTER, 1))
}
