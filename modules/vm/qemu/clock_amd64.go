package qemu

// timeStampCounter reads the processor's time stamp counter, in clock_amd64.s.
func timeStampCounter() uint64
