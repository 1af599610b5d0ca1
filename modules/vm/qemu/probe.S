# The guest of Probe: the last 64 KiB below 4 GiB, assembled to probe.bin by `go generate`.
#
# It does what each kernel does first, and some hypervisors can't: it enters long mode, has its pages
# translated, handles a page fault, and ten interrupts of its timer. Then it writes a number to a
# device that ends QEMU with it. A hypervisor that fails at any of it stops here or resets.
.intel_syntax noprefix
.set base, 0xffff0000
.set pml4, 0x1000           # tables of pages: 4 GiB in pages of 2 MiB
.set pdpt, 0x2000
.set pd, 0x3000
.set idt, 0x8000
.set ticks, 0x500
.set stack, 0x80000
.set timer_vector, 32
.set fault_vector, 14
.set lapic, 0xfee00000
.set beyond, 0x200000000    # 8 GiB: no page there until the fault maps one

.text
.code16
start:
    cli
    lgdtd cs:[gdtr - base]
    mov eax, cr0
    or eax, 1
    mov cr0, eax
    data32 ljmp 8, offset protected

.code32
protected:
    mov eax, 16
    mov ds, eax
    mov es, eax
    mov ss, eax
    mov esp, stack
    xor eax, eax
    mov edi, 0x500
    mov ecx, 0x8b00 / 4     # the counter, the tables and the interrupt table
    cld
    rep stosd
    mov dword ptr [pml4], pdpt + 3
    mov dword ptr [pdpt], pd + 3
    mov dword ptr [pdpt + 8], pd + 0x1003
    mov dword ptr [pdpt + 16], pd + 0x2003
    mov dword ptr [pdpt + 24], pd + 0x3003
    mov edi, pd
    mov eax, 0x83
    mov ecx, 2048
1:  mov [edi], eax
    add edi, 8
    add eax, 0x200000
    loop 1b
    mov eax, 0x20           # physical address extension
    mov cr4, eax
    mov eax, pml4
    mov cr3, eax
    mov ecx, 0xc0000080     # long mode enable
    rdmsr
    or eax, 0x100
    wrmsr
    mov eax, cr0
    or eax, 0x80000000
    mov cr0, eax
    ljmp 24, offset long

.code64
long:
    mov ebx, lapic
    mov edi, idt + 16 * fault_vector
    mov eax, offset fault
    call gate
    mov edi, idt + 16 * timer_vector
    mov eax, offset timer
    call gate
    mov eax, offset idtr
    lidt [rax]
    mov rax, beyond
    mov rdx, [rax]          # a page fault
    mov al, 0xff            # the old interrupt controllers stay silent
    out 0x21, al
    out 0xa1, al
    mov dword ptr [rbx + 0xf0], 0x1ff
    mov dword ptr [rbx + 0x3e0], 3
    mov dword ptr [rbx + 0x320], 0x20000 + timer_vector
    mov dword ptr [rbx + 0x380], 10000
    sti
2:  hlt
    cmp dword ptr [ticks], 10
    jb 2b
    cli
    mov al, 0x2a
    out 0xf4, al
3:  hlt
    jmp 3b

gate:                       # edi: the gate, eax: the handler
    mov [rdi], ax
    mov word ptr [rdi + 2], 24
    mov word ptr [rdi + 4], 0x8e00
    shr eax, 16
    mov [rdi + 6], ax
    ret

timer:
    inc dword ptr [ticks]
    mov dword ptr [rbx + 0xb0], 0
    iretq

fault:                      # maps the page that lacked
    mov dword ptr [pdpt + 64], pd + 3
    add rsp, 8
    iretq

.balign 8
gdt:
    .quad 0
    .quad 0x00cf9b000000ffff    # 8: code, 32 bits
    .quad 0x00cf93000000ffff    # 16: data
    .quad 0x00af9b000000ffff    # 24: code, 64 bits
gdtr:
    .word gdtr - gdt - 1
    .long gdt
idtr:
    .word 16 * (timer_vector + 1) - 1
    .quad idt

.org 0xfff0
.code16
    jmp start
.org 0x10000
