package workload

// VMSize is what a Kubernetes VM has.
type VMSize struct {
	// CPU is in cores, Memory and Disk in bytes.
	CPU    uint64
	Memory uint64
	Disk   uint64
}

// vmSizes are the sizes from number 1 on; docs/kubernetes/sizes.md shows them.
var vmSizes = [...]VMSize{
	{CPU: 1, Memory: 2 * GiB, Disk: 50 * GiB},
	{CPU: 2, Memory: 4 * GiB, Disk: 100 * GiB},
	{CPU: 2, Memory: 8 * GiB, Disk: 25 * GiB},
	{CPU: 2, Memory: 8 * GiB, Disk: 50 * GiB},
	{CPU: 2, Memory: 8 * GiB, Disk: 200 * GiB},
	{CPU: 4, Memory: 16 * GiB, Disk: 50 * GiB},
	{CPU: 4, Memory: 16 * GiB, Disk: 100 * GiB},
	{CPU: 4, Memory: 16 * GiB, Disk: 400 * GiB},
	{CPU: 8, Memory: 32 * GiB, Disk: 100 * GiB},
	{CPU: 8, Memory: 32 * GiB, Disk: 200 * GiB},
	{CPU: 8, Memory: 32 * GiB, Disk: 800 * GiB},
	{CPU: 16, Memory: 64 * GiB, Disk: 200 * GiB},
	{CPU: 16, Memory: 64 * GiB, Disk: 400 * GiB},
	{CPU: 16, Memory: 64 * GiB, Disk: 800 * GiB},
	{CPU: 1, Memory: GiB, Disk: 8 * GiB}, // a worker on a small machine
}

// MaxVMSize is the largest number of a size.
const MaxVMSize = len(vmSizes)

// VMSizeOf returns the size of that number; false if there is none.
func VMSizeOf(number uint8) (VMSize, bool) {
	if number < 1 || int(number) > len(vmSizes) {
		return VMSize{}, false
	}
	return vmSizes[number-1], true
}
