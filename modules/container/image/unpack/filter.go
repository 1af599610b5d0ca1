package unpack

import (
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/confine"
)

// calls are the system calls that reading a pipe and writing below the root need, beside
// those of Go's own runtime. None of them opens a socket, starts a program or changes
// mounts, and files are those below the root.
func calls() []confine.Call {
	return confine.Calls(append(callsHere(),
		unix.SYS_PREAD64, unix.SYS_PWRITE64, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_FSTAT, unix.SYS_LSEEK, unix.SYS_FTRUNCATE,
		unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_STATX, unix.SYS_GETDENTS64, unix.SYS_READLINKAT, unix.SYS_FACCESSAT, unix.SYS_GETCWD,
		unix.SYS_MKDIRAT, unix.SYS_MKNODAT, unix.SYS_UNLINKAT, unix.SYS_SYMLINKAT, unix.SYS_LINKAT, unix.SYS_PIPE2, unix.SYS_UMASK,
		unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT,
		unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_GETXATTR, unix.SYS_LGETXATTR, unix.SYS_FGETXATTR, unix.SYS_LISTXATTR, unix.SYS_LLISTXATTR, unix.SYS_FLISTXATTR)...)
}
