// Package kernel keeps what a module lacks of the machine's kernel: it tries the features that the module uses, each with a time limit and
// beside everything else, and those that are lacking again from time to time, since a module of the kernel may be loaded later, and
// programs installed. It decides nothing, and changes nothing on the machine.
package kernel
