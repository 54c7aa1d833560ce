/* loan.c - an allocator that lends one piece and leaves all others to the next one (musec.h). */
#include <musec/musec.h>

void *musec_loan_alloc(size_t bytes, void *stream, void *loan)
{
    musec_loan *l = loan;
    if (l->data == NULL || l->is_out != 0 || bytes != l->bytes)
        return l->next.alloc(bytes, stream, l->next.user);
    l->is_out = l->was_out = 1;
    return l->data;
}

void musec_loan_free(void *p, void *stream, void *loan)
{
    musec_loan *l = loan;
    if (l->is_out != 0 && p == l->data)
        l->is_out = 0;
    else
        l->next.free(p, stream, l->next.user);
}
