package front

import (
	"runtime/debug"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/cmd/croftd/internal/userapi/wire"
	"github.com/croft-edge/croft/pkg/confine"
)

// confined sets this process's resource limits and installs its system call filter.
func confined(s wire.Setup) error {
	debug.SetMemoryLimit(s.Memory * 3 / 4)
	if err := confine.Ceilings(map[int]uint64{unix.RLIMIT_DATA: uint64(s.Memory), unix.RLIMIT_NOFILE: uint64(s.Files), unix.RLIMIT_CORE: 0}); err != nil {
		return err
	}
	return confine.Seal(calls())
}

// calls are the system calls that accepting and using connections needs, beside those of Go's runtime.
// None takes a path or another name. shutdown isn't among them: the process could shut down the
// listening socket, which it shares with the agent.
func calls() []confine.Call {
	return append(confine.Calls(
		unix.SYS_ACCEPT4, unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME, unix.SYS_GETSOCKOPT,
		unix.SYS_RECVMSG, unix.SYS_SENDMSG, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_PPOLL,
	), confine.Call{Number: unix.SYS_SETSOCKOPT, Values: [][2]uint32{
		{unix.IPPROTO_TCP, unix.TCP_NODELAY}, {unix.SOL_SOCKET, unix.SO_KEEPALIVE},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE}, {unix.IPPROTO_TCP, unix.TCP_KEEPINTVL}, {unix.IPPROTO_TCP, unix.TCP_KEEPCNT},
	}})
}
