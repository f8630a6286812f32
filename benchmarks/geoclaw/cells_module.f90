! The elevation of the bottom of each cell, from the file cells.data, so that two models have the same.
module cells_module
    implicit none
    logical :: are_read = .false.
    integer :: nx, ny
    real(kind=8), allocatable :: bottom(:, :)
contains
    real(kind=8) function bottom_of(i, j)
        integer, intent(in) :: i, j
        !$omp critical (reading_cells)
        if (.not. are_read) then
            open(unit=97, file='cells.data', status='old')
            read(97, *) nx, ny
            allocate(bottom(nx, ny))
            read(97, *) bottom
            close(97)
            are_read = .true.
        end if
        !$omp end critical (reading_cells)
        bottom_of = bottom(min(max(i, 1), nx), min(max(j, 1), ny))
    end function bottom_of
end module cells_module
