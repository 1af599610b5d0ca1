package port

import (
	"os"

	"golang.org/x/sys/unix"
)

// A zdb's listening socket and each connection that it accepts belong to the node's
// network. With any of them a compromised zdb could leave its network namespace: the kernel
// lets a disconnected socket connect again. So a filter that can't be removed drops the
// answers to connecting: no client's segment has both SYN and ACK. Connections inherit it.

const (
	// tcpFlags is the offset of the flags in a TCP segment, in bytes.
	tcpFlags = 13
	synAck   = 0x12
)

// keepPassive lets a socket take connections only, unless it has the filter already.
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
